// Asks a chat template what it does by rendering small conversations with it: nothing else is known of a template without a
// native renderer. A rendering that the template refuses is `null`, which is an answer too.

import { fromPlain, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { type ChatTemplate, ChatTemplateError, type TemplateSegment } from "../chat-template.ts";

/** Words that no template writes by itself. */
export const probeWords = {
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

/** An answer that calls the probe tool; some templates want the arguments as JSON text. */
export function callMessage(given: object | string = probeArguments): object {
  const call = { id: "probe0001", type: "function", function: { name: "probe_tool", arguments: given } };
  return { role: "assistant", content: "", tool_calls: [call] };
}

export const resultMessage = {
  role: "tool",
  name: "probe_tool",
  tool_call_id: "probe0001",
  content: probeWords.result,
};

/** Any time will do; it must only be the same for all probes. */
const probeTime = "2026-01-31T12:00:00";
const question = { role: "user", content: probeWords.question };

export type ProbeOptions = {
  readonly addGenerationPrompt?: boolean;
  readonly kwargs?: Record<string, boolean>;
  readonly withTool?: boolean;
};

export class TemplateProber {
  readonly #template: ChatTemplate;
  readonly #specialTokens: JsonObject;
  /** What the template is given when there are no tools. */
  readonly noTools: JsonValue;

  /** Throws the template's own `ChatTemplateError` when it refuses even a single question. */
  constructor(template: ChatTemplate, specialTokens: JsonObject) {
    this.#template = template;
    this.#specialTokens = specialTokens;
    // Some templates loop over tools without asking whether there are any.
    this.noTools = this.#takesNoTools(null) || !this.#takesNoTools([]) ? null : [];
    this.#render([question], this.noTools, {});
  }

  /** The segments; `null` when the template refuses. */
  render(messages: readonly object[], options: ProbeOptions = {}): readonly TemplateSegment[] | null {
    try {
      return this.#render(messages, options.withTool === true ? [probeTool] : this.noTools, options);
    } catch (error) {
      // A template that wants too much of one probe would want it of all.
      if (error instanceof ChatTemplateError && error.kind !== "limit") return null;
      throw error;
    }
  }

  #takesNoTools(tools: JsonValue): boolean {
    try {
      this.#render([question], tools, {});
      return true;
    } catch (error) {
      if (error instanceof ChatTemplateError && error.kind !== "limit") return false;
      throw error;
    }
  }

  #render(messages: readonly object[], tools: JsonValue, options: ProbeOptions): readonly TemplateSegment[] {
    return this.#template({
      messages: messages.map(fromPlain),
      tools,
      addGenerationPrompt: options.addGenerationPrompt ?? false,
      kwargs: new Map(Object.entries(options.kwargs ?? {})),
      context: { specialTokens: this.#specialTokens, now: probeTime },
    });
  }
}
