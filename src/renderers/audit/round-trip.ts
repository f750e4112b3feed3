// Whether an answer survives being read and rendered again: what happens to it where only messages are kept. The loop never
// does this; the audit shows what it would cost.

import type { AssistantMessage, Message } from "../../core/index.ts";
import type { AuditedTemplate } from "./audited-template.ts";
import { nameChange } from "./name-change.ts";
import { renderParts } from "./render-parts.ts";
import { auditWords, type SampledText, type SampledTexts } from "./sampled-texts.ts";
import type { RoundTripFinding } from "./template-audit.ts";

const question: Message = { role: "user", content: auditWords.question };

/** The answers that are tried, in the order of the table. */
export function roundTripsOf(texts: SampledTexts): readonly (readonly [kind: string, text: SampledText])[] {
  const all: (readonly [string, SampledText | null])[] = [
    ["answer", texts.answer],
    ["answer in blanks", texts.padded],
    ["thinking and answer", texts.thought],
    ["call", texts.call],
    ["call without blanks", texts.closeCall],
    ["two calls", texts.calls],
    ["thinking and call", texts.thoughtCall],
  ];
  return all.filter((entry): entry is readonly [string, SampledText] => entry[1] !== null);
}

export function probeRoundTrip(audited: AuditedTemplate, kind: string, sampled: SampledText): RoundTripFinding {
  const { family, tokenizer } = audited;
  const before = audited.render([question], { addGenerationPrompt: true });
  if (before.type === "refused") throw new Error(before.error.message);
  const end = sampled.end ?? "";
  const body = tokenizer.encode(sampled.body);
  const action = audited.read(sampled, 0);
  const apart = [...tokenizer.encode(before.text), ...body];
  const atOnce = [...tokenizer.encode(before.text + sampled.body)];
  const sameTokens = apart.length === atOnce.length && apart.every((id, index) => id === atOnce[index]);
  const finding = { kind, difference: null, error: null, sameTokens };
  const isRead =
    action.toolCalls.length === sampled.calls &&
    action.toolCalls.every(({ name }) => name === "find_order") &&
    (action.reasoning?.trim() ?? null) === sampled.reasoning;
  if (!isRead) return { ...finding, outcome: "unread" };
  const message: AssistantMessage = {
    role: "assistant",
    content: action.content,
    reasoning: action.reasoning,
    toolCalls: action.toolCalls,
  };
  const mustHold = sampled.calls > 0 ? "#W1" : auditWords.answer;
  const after = renderParts(audited, { history: [question], message, mustHold });
  if (after.type === "refused") return { ...finding, outcome: "refused", error: after.error.message };
  const difference = nameChange({
    seen: before.text + sampled.body + end,
    answer: { start: before.text.length, end: before.text.length + sampled.body.length },
    written: after.text,
    history: [question],
    newMessages: [],
    thinkTags: family.reasoningParser?.markers.length === 2 ? family.reasoningParser.markers : [],
  });
  return { ...finding, outcome: difference === null ? "same" : "differs", difference };
}
