// Forms of an action in a family's format, for constraints: its calls, its answer, and the
// reasoning that comes first. Loaded only when a constraint is requested.

import type { ActionForms, TextForm, Tool } from "../core/index.ts";
import { loadCallForms, type ReasoningParser } from "../parsers/on-demand.ts";
import type { RendererFamily } from "./renderer-family.ts";

type ActionFormat = {
  readonly family: Pick<RendererFamily, "actionFrame" | "stopTokens">;
  /** Name of the parser of calls. */
  readonly calls: string;
  readonly reasoning: ReasoningParser | null;
  /** Text of the generation prompt. */
  readonly actionPrompt: string;
};

/** Harmony, the format of gpt-oss: every part of an action is a block with a channel. */
const harmony = {
  answerStart: "<|channel|>final<|message|>",
  reasoning: { start: "<|channel|>analysis<|message|>", end: "<|end|><|start|>assistant" },
};

export async function actionForms(tools: readonly Tool[], format: ActionFormat): Promise<ActionForms> {
  const { callForm } = await loadCallForms();
  const { actionFrame, stopTokens } = format.family;
  const calls = tools.map((tool) => {
    const form = callForm(format.calls, tool);
    return form === null ? null : sampledPart(form, actionFrame ?? "", stopTokens);
  });
  if (actionFrame !== null) return { calls, ...harmony };
  return { calls, answerStart: "", reasoning: freeReasoning(format) };
}

/** The form without what the prompt has written already, and without the token that ends the action. */
function sampledPart(form: TextForm, opening: string, stopTokens: readonly string[]): TextForm {
  if (form.type === "literal") {
    const text = form.text.startsWith(opening) ? form.text.slice(opening.length) : form.text;
    const end = stopTokens.find((token) => text.endsWith(token) && text !== token);
    return { type: "literal", text: end === undefined ? text : text.slice(0, -end.length) };
  }
  if (form.type !== "sequence") return form;
  const [first, ...rest] = form.parts;
  const last = rest.pop();
  if (first === undefined || last === undefined) return form;
  const shown = sampledPart(first, opening, []);
  if (last.type === "literal" && stopTokens.includes(last.text)) return { type: "sequence", parts: [shown, ...rest] };
  return { type: "sequence", parts: [shown, ...rest, sampledPart(last, "", stopTokens)] };
}

function freeReasoning({ reasoning, actionPrompt }: ActionFormat): ActionForms["reasoning"] {
  if (reasoning === null || !reasoning.hasTags) return null;
  const [start, end] = reasoning.markers as readonly [string, string];
  const prompt = actionPrompt.trimEnd();
  if (prompt.endsWith(start)) return { start: null, end };
  return prompt.endsWith(end) ? null : { start, end };
}
