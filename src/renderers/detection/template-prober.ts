// Probes a chat template by rendering small conversations with it. A rendering that the template
// refuses is `null`, which is also a finding.

import { fromPlain, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateInput, type TemplateSegment } from "../chat-template.ts";
import { segmentsText } from "../segments.ts";

/** Strings that no template writes by itself. */
export const probeContents = {
  question: "zqzq-question",
  answer: "zqzq-answer",
  next: "zqzq-next",
  result: "zqzq-result",
};
export const probeTool: JsonObject = fromPlain({
  type: "function",
  function: {
    name: "probe_tool",
    description: "Probes.",
    parameters: { type: "object", properties: { probe_key: { type: "string", description: "A key." } } },
  },
}) as JsonObject;
export const probeArguments = { probe_key: "probe value" };

export const question = { role: "user", content: probeContents.question };
export const answer = { role: "assistant", content: probeContents.answer };
export const nextQuestion = { role: "user", content: probeContents.next };

/** An answer that calls the probe tool; some templates expect the arguments as JSON text. */
export function callMessage(
  given: object | string = probeArguments,
  {
    id = "probe0001",
    count = 1,
    content = "",
  }: { readonly id?: string; readonly count?: number; readonly content?: string | null } = {},
): object {
  const call = { id, type: "function", function: { name: "probe_tool", arguments: given } };
  return { role: "assistant", content, tool_calls: Array.from({ length: count }, () => call) };
}

export const resultMessage = {
  role: "tool",
  name: "probe_tool",
  tool_call_id: "probe0001",
  content: probeContents.result,
};

/** Any time, the same for all probes. */
export const probeTime = "2026-01-31T12:00:00";
export type ProbeOptions = {
  readonly contents?: "text" | "parts";
  readonly addGenerationPrompt?: boolean;
  readonly kwargs?: Record<string, boolean>;
  readonly withTool?: boolean;
};

export type Rendering =
  | { readonly type: "text"; readonly text: string; readonly segments: readonly TemplateSegment[] }
  | { readonly type: "refused"; readonly error: ChatTemplateError };

/** A rendering, or the template's refusal as a value. */
export function tryTemplate(template: ChatTemplate, input: TemplateInput): Rendering {
  try {
    const segments = template(input);
    return { type: "text", text: segmentsText(segments), segments };
  } catch (error) {
    if (error instanceof ChatTemplateError) return { type: "refused", error };
    throw error;
  }
}

function inParts(message: object): object {
  const { content } = message as { readonly content?: unknown };
  return typeof content === "string"
    ? { ...message, content: content === "" ? [] : [{ type: "text", text: content }] }
    : message;
}

export class TemplateProber {
  readonly #template: ChatTemplate;
  readonly #specialTokens: JsonObject;
  /** Value that the template is given for `tools` when there are none. */
  readonly noTools: JsonValue;
  /**
   * Form of contents that the template writes: strings, or lists of parts, as templates of models
   * that see images may demand.
   */
  readonly contents: "text" | "parts";

  /** Throws the template's own `ChatTemplateError` when it refuses even a single question. */
  constructor(template: ChatTemplate, specialTokens: JsonObject) {
    this.#template = template;
    this.#specialTokens = specialTokens;
    const shows = (contents: "text" | "parts"): boolean =>
      [null, []].some((tools) => {
        const shown = this.#render([question, answer], tools, { contents });
        return shown.type === "text" && shown.text.includes(probeContents.question);
      });
    this.contents = !shows("text") && shows("parts") ? "parts" : "text";
    const takes = (tools: JsonValue): boolean => this.#render([question], tools, {}).type === "text";
    // Some templates loop over tools without testing whether there are any.
    this.noTools = takes(null) || !takes([]) ? null : [];
    const first = this.#render([question], this.noTools, {});
    if (first.type === "refused") throw first.error;
  }

  /** The segments; `null` when the template refuses. */
  render(messages: readonly object[], options: ProbeOptions = {}): readonly TemplateSegment[] | null {
    const rendering = this.#render(messages, options.withTool === true ? [probeTool] : this.noTools, options);
    return rendering.type === "text" ? rendering.segments : null;
  }

  /** The text; empty when the template refuses. */
  text(messages: readonly object[], options: ProbeOptions = {}): string {
    return segmentsText(this.render(messages, options) ?? []);
  }

  #render(messages: readonly object[], tools: JsonValue, options: ProbeOptions): Rendering {
    const rendering = tryTemplate(this.#template, {
      messages: messages.map((message) =>
        fromPlain((options.contents ?? this.contents) === "parts" ? inParts(message) : message),
      ),
      tools,
      addGenerationPrompt: options.addGenerationPrompt ?? false,
      kwargs: new Map(Object.entries(options.kwargs ?? {})),
      context: { specialTokens: this.#specialTokens, now: probeTime },
    });
    // A template that exceeds the limits in one probe would exceed them in all.
    if (rendering.type === "refused" && rendering.error.kind === "limit") throw rendering.error;
    return rendering;
  }
}
