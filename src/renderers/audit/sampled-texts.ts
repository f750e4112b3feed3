// What a model with this template would sample, found by letting the template write it: an answer, a thought, calls. What a
// template does not write (thinking that it drops, calls that it refuses) is spelled as its parsers read it.

import type { AssistantMessage, ToolCall } from "../../core/index.ts";
import type { AuditedTemplate } from "./audited-template.ts";
import { spelledCall } from "./call-spellings.ts";
import { type AnswerFrame, answerFrame, writtenAnswer } from "./written-answer.ts";

export const auditWords = {
  question: "Where is my order?",
  answer: "Your order ships today.",
  thought: "The order number helps.",
  results: ["It ships on Monday.", "It ships on Friday."],
  next: "Thank you kindly.",
  rule: "Be brief from now on.",
} as const;

export type SampledText = {
  /** Without the token that ends it. */
  readonly body: string;
  /** The token that ends it; `null`: that of whatever follows. */
  readonly end: string | null;
  readonly reasoning: string | null;
  /** How many calls it holds. */
  readonly calls: number;
};

export type SampledTexts = {
  /** What the template adds for an answer to follow. */
  readonly generationPrompt: string;
  /** True when that closes the thinking before an answer begins: the model is told not to think. */
  readonly closesThinking: boolean;
  readonly answer: SampledText;
  /** The same with white space around the words. */
  readonly padded: SampledText;
  /** Nothing but what a template writes before the words. */
  readonly empty: SampledText;
  /** `null`: the model does not think. */
  readonly thought: SampledText | null;
  readonly call: SampledText;
  /** The same without the blanks in its JSON; `null`: there are none. */
  readonly closeCall: SampledText | null;
  /** `null`: the template does not write two calls in one answer. */
  readonly calls: SampledText | null;
  readonly thoughtCall: SampledText | null;
  /** The call as the template writes it, where that is not the one above; `null`: it is, or the template writes none. */
  readonly otherCall: string | null;
  readonly writesCalls: boolean;
};

const question = { role: "user", content: auditWords.question } as const;

/** Throws a plain error when the template refuses a question, which no renderer survives. */
export function sampledTexts(audited: AuditedTemplate): SampledTexts {
  const frame = answerFrame(audited, [question]);
  const { start, end, opensThinking, closesThinking } = frame;
  const thinks = audited.family.reasoningParser !== null && !closesThinking;
  const write = (parts: Parts, mustHold: string): SampledText | null => written(audited, { frame, parts, mustHold });
  const plain = { content: auditWords.answer, reasoning: null, calls: 0 };
  const answer = write(plain, auditWords.answer) ?? { ...asSpelled(plain), body: auditWords.answer };
  const saying = (words: string): SampledText => ({ ...answer, body: answer.body.replace(auditWords.answer, words) });

  const ownCall = write(callParts(1, null), "#W1");
  const spelled = {
    ...asSpelled(callParts(1, null)),
    body: (opensThinking ? `${end}\n\n` : "") + spelledCall(audited.family.toolCallParser.name, argumentsOf(0)),
    end: ownCall?.end ?? null,
  };
  const call = ownCall !== null && readsCall(audited, ownCall) ? ownCall : spelled;
  const close = call.body.replaceAll(/(": |, ")/g, (text) => text.replace(" ", ""));

  const ownThought = write({ ...plain, reasoning: auditWords.thought }, auditWords.thought);
  const isPrefixed = ownThought !== null && ownThought.body.endsWith(answer.body);
  const tags = opensThinking ? [`${auditWords.thought}\n`, `${end}\n\n`] : [`${start}\n${auditWords.thought}\n`, `${end}\n\n`]; // prettier-ignore
  /** Puts a thought before an answer that has none; `null`: nobody knows how. */
  const withThought = (text: SampledText): SampledText | null => {
    const lead = isPrefixed ? ownThought.body.slice(0, ownThought.body.length - answer.body.length) : null;
    if (lead === null && start === "") return null;
    const rest = text.body.trimStart();
    const isClosed = opensThinking && rest.startsWith(end);
    const body = lead === null ? (isClosed ? tags[0] + rest : tags.join("") + rest) : lead + text.body;
    return { ...text, body, reasoning: auditWords.thought };
  };
  const ownThoughtCall = write(callParts(1, auditWords.thought), auditWords.thought);
  const isWhole = ownThoughtCall !== null && ownThoughtCall.body.includes("#W1") && call === ownCall;
  return {
    generationPrompt: frame.generationPrompt,
    closesThinking,
    answer,
    padded: saying(`\n ${auditWords.answer} \n`),
    empty: saying(""),
    thought: thinks ? (ownThought ?? withThought(answer)) : null,
    call,
    closeCall: close === call.body ? null : { ...call, body: close },
    calls: call === ownCall ? write(callParts(2, null), "#W2") : null,
    thoughtCall: !thinks ? null : isWhole ? ownThoughtCall : withThought(call),
    otherCall: ownCall === null || call === ownCall ? null : ownCall.body,
    writesCalls: ownCall !== null,
  };
}

type Parts = { readonly content: string; readonly reasoning: string | null; readonly calls: number };

const callParts = (calls: number, reasoning: string | null): Parts => ({ content: "", reasoning, calls });
const asSpelled = ({ reasoning, calls }: Parts) => ({ end: null, reasoning, calls });

function argumentsOf(index: number): string {
  return `{"order_id": "#W${index + 1}"}`;
}

function written(
  audited: AuditedTemplate,
  { frame, parts, mustHold }: { readonly frame: AnswerFrame; readonly parts: Parts; readonly mustHold: string },
): SampledText | null {
  const sampled = writtenAnswer(audited, { frame, message: assistant(parts), mustHold });
  if (sampled === null) return null;
  const body = frame.opensThinking || frame.start === "" ? sampled.body : withoutEmptyThought(sampled.body, frame);
  return { ...sampled, body, reasoning: parts.reasoning, calls: parts.calls };
}

/** Call ids have nine characters: some templates accept no others. */
function assistant({ content, reasoning, calls }: Parts): AssistantMessage {
  const call = (_: unknown, index: number): ToolCall => ({ id: `call0000${index}`, name: "find_order", argumentsText: argumentsOf(index) }); // prettier-ignore
  return { role: "assistant", content, reasoning, toolCalls: Array.from({ length: calls }, call) };
}

function readsCall(audited: AuditedTemplate, text: SampledText): boolean {
  return audited.read(text, 0).toolCalls.some(({ name }) => name === "find_order");
}

/** Templates write an empty thought before what they get without one; a model that does not think writes none. */
function withoutEmptyThought(text: string, { start, end }: AnswerFrame): string {
  const open = text.indexOf(start);
  const close = text.indexOf(end);
  if (open === -1 || close < open || text.slice(open + start.length, close).trim() !== "") return text;
  return text.slice(0, open) + text.slice(close + end.length).trimStart();
}
