// What a template writes of an answer, parted from the prompt before it and from the token that ends it: the text that a model
// would have sampled to have its answer written so.

import type { AssistantMessage, Message } from "../../core/index.ts";
import type { Rendering } from "../detection/template-prober.ts";
import type { AuditedTemplate } from "./audited-template.ts";
import { renderParts } from "./render-parts.ts";

/** What stands around an answer. */
export type AnswerFrame = {
  readonly history: readonly Message[];
  /** All that stands before it. */
  readonly prompt: string;
  /** Of that, what the template adds for an answer to follow. */
  readonly generationPrompt: string;
  /** Tags of thinking; empty for families that mark it otherwise. */
  readonly start: string;
  readonly end: string;
  readonly opensThinking: boolean;
  readonly closesThinking: boolean;
};

/** Throws a plain error with the template's own words when it refuses the history. */
export function answerFrame(audited: AuditedTemplate, history: readonly Message[]): AnswerFrame {
  const opened = audited.render(history, { addGenerationPrompt: true });
  if (opened.type === "refused") throw new Error(opened.error.message);
  const asked = audited.render(history, { addGenerationPrompt: false });
  const isAdded = asked.type === "text" && opened.text.startsWith(asked.text);
  const generationPrompt = isAdded ? opened.text.slice(asked.text.length) : "";
  const markers = audited.family.reasoningParser?.markers ?? [];
  const [start = "", end = ""] = markers.length === 2 ? markers : [];
  const isLast = (tag: string): boolean => tag !== "" && generationPrompt.trimEnd().endsWith(tag);
  return {
    history,
    prompt: opened.text,
    generationPrompt,
    start,
    end,
    opensThinking: isLast(start),
    closesThinking: isLast(end),
  };
}

export type WrittenAnswer = {
  readonly body: string;
  /** The token that ends it; `null`: that of whatever follows. */
  readonly end: string | null;
};

/** `null` when the template refuses the answer, leaves `mustHold` out, or writes the prompt otherwise because of it. */
export function writtenAnswer(
  audited: AuditedTemplate,
  { frame, message, mustHold }: { readonly frame: AnswerFrame; readonly message: AssistantMessage; readonly mustHold: string }, // prettier-ignore
): WrittenAnswer | null {
  const { prompt, start, end, opensThinking } = frame;
  const rendering = renderParts(audited, { history: frame.history, message, mustHold });
  if (rendering.type === "refused" || !rendering.text.includes(mustHold)) return null;
  const base = opensThinking ? prompt.slice(0, prompt.lastIndexOf(start)) : prompt;
  if (!rendering.text.startsWith(base)) return null;
  const isOpened = rendering.text.startsWith(prompt);
  const rest = rendering.text.slice(isOpened ? prompt.length : base.length);
  // Where the prompt opens the thinking and the template writes none, the model closes it all the same.
  return withoutEnd(isOpened || rest.trimStart().startsWith(end) ? rest : `${end}\n\n${rest}`, audited);
}

/** Parts the token that stops sampling from what it ends. */
function withoutEnd(text: string, { family }: AuditedTemplate): WrittenAnswer {
  const ends = [...(family.endToken === null ? [] : [family.endToken]), ...family.otherEnds, ...family.stopTokens];
  const bare = text.endsWith(family.closing) ? text.slice(0, text.length - family.closing.length) : text;
  const end = ends.find((token) => bare.endsWith(token));
  return end === undefined ? { body: bare, end: null } : { body: bare.slice(0, -end.length), end };
}

/** Where answers have no end of their own, they end with the token that opens the message after them. */
export function openerOf(rendering: Rendering, message: number, { family }: AuditedTemplate): string {
  const segments = rendering.type === "text" ? rendering.segments : [];
  const first = segments.find((segment) => segment.message === message)?.text ?? "";
  return family.stopTokens.find((token) => first.startsWith(token)) ?? family.stopTokens[0] ?? "";
}
