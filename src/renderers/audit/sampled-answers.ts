// Answers that a model with this template would sample, obtained by letting the template write
// them: an answer, a thought, calls. Parts that a template does not write (thinking that it drops,
// calls that it refuses) are spelled as its parsers read them.

import type { AssistantMessage, ToolCall, Message } from "../../core/index.ts";
import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { spelledCall } from "../../parsers/on-demand.ts";
import type { Rendering } from "../detection/template-prober.ts";
import { wireMessages } from "../renderer-family.ts";
import type { AuditedTemplate } from "./audited-template.ts";

/** Surroundings of an answer: the text before it, and the tags of thinking. */
export type AnswerFrame = {
  readonly history: readonly Message[];
  /** All text before the answer. */
  readonly prompt: string;
  /** The end of `prompt`, which the template adds for an answer to follow. */
  readonly generationPrompt: string;
  /** Tags of thinking; empty for families that mark it otherwise. */
  readonly start: string;
  readonly end: string;
  readonly opensThinking: boolean;
  readonly closesThinking: boolean;
};

/** Throws a plain error with the template's own message when it refuses the history. */
export function answerFrame(audited: AuditedTemplate, history: readonly Message[]): AnswerFrame {
  const opened = audited.render(history, { addGenerationPrompt: true });
  if (opened.type === "refused") throw new Error(opened.error.message);
  const { text: prompt } = opened;
  const closed = audited.render(history, { addGenerationPrompt: false });
  const generationPrompt =
    closed.type === "text" && prompt.startsWith(closed.text) ? prompt.slice(closed.text.length) : "";
  const [start = "", end = ""] = audited.thinkTags;
  const isLast = (tag: string): boolean => tag !== "" && generationPrompt.trimEnd().endsWith(tag);
  return { history, prompt, generationPrompt, start, end, opensThinking: isLast(start), closesThinking: isLast(end) };
}

export type WrittenAnswer = {
  readonly body: string;
  /**
   * The token that ends the answer; `null` if it ends with the token that opens the next message.
   */
  readonly end: string | null;
};

type AnswerParts = {
  readonly message: AssistantMessage;
  /** Text of the message that the template must write. */
  readonly mustHold: string;
};

/**
 * `null` if the template refuses the answer, omits `mustHold`, or changes the prompt because of the
 * answer.
 */
export function writtenAnswer(
  audited: AuditedTemplate,
  { frame, ...answer }: AnswerParts & { readonly frame: AnswerFrame },
): WrittenAnswer | null {
  const { history, prompt, start, end, opensThinking, closesThinking } = frame;
  const rendering = renderParts(audited, { history, ...answer });
  if (rendering.type === "refused" || !rendering.text.includes(answer.mustHold)) return null;
  // A thinking block that the prompt opens or closes may be missing from the history.
  const startAt = opensThinking || closesThinking ? prompt.lastIndexOf(start, prompt.length - 1) : -1;
  const base = startAt < prompt.length - frame.generationPrompt.length ? prompt : prompt.slice(0, startAt);
  if (!rendering.text.startsWith(base)) return null;
  const isOpened = rendering.text.startsWith(prompt);
  const rest = rendering.text.slice(isOpened ? prompt.length : base.length);
  // If the prompt opens the thinking and the template writes none, the model still closes it.
  const isClosed = isOpened || closesThinking || rest.trimStart().startsWith(end);
  return withoutEnd(isClosed ? rest : `${end}\n\n${rest}`, audited);
}

/** Separates the token that stops sampling from the text before it. */
function withoutEnd(text: string, { family }: AuditedTemplate): WrittenAnswer {
  const ends = [...(family.endToken === null ? [] : [family.endToken]), ...family.otherEnds, ...family.stopTokens];
  const bare = text.endsWith(family.closing) ? text.slice(0, text.length - family.closing.length) : text;
  const end = ends.find((token) => bare.endsWith(token));
  return end === undefined ? { body: bare, end: null } : { body: bare.slice(0, -end.length), end };
}

/** Answers without an end of their own end with the token that opens the next message. */
export function openerOf(rendering: Rendering, message: number, { family }: AuditedTemplate): string {
  const segments = rendering.type === "text" ? rendering.segments : [];
  const first = segments.find((segment) => segment.message === message)?.text ?? "";
  return family.stopTokens.find((token) => first.startsWith(token)) ?? family.stopTokens[0] ?? "";
}

/** The first rendering that holds `mustHold`, else the first that is not refused, else the first refusal. */
export function renderParts(
  audited: AuditedTemplate,
  { history, message, mustHold }: AnswerParts & { readonly history: readonly Message[] },
): Rendering {
  const wires = wireMessages(audited.family, [...history, message]);
  let best: Rendering | null = null;
  for (const shape of shapesOf(wires.at(-1)!)) {
    const rendering = audited.renderWire([...wires.slice(0, -1), shape], { addGenerationPrompt: false });
    if (rendering.type === "text" && rendering.text.includes(mustHold)) return rendering;
    if (best === null || (best.type === "refused" && rendering.type === "text")) best = rendering;
  }
  return best!;
}

/**
 * The message with arguments as an object or as JSON text, and with missing content as an empty
 * text or as null.
 */
function shapesOf(wire: JsonObject): readonly JsonObject[] {
  const calls = wire.get("tool_calls");
  if (!Array.isArray(calls) || calls.length === 0) return [wire];
  const asText = new Map([...wire, ["tool_calls", calls.map(withArgumentsText)]]);
  const shapes = [wire, asText];
  if (wire.get("content") !== "") return shapes;
  return [...shapes, ...shapes.map((shape) => new Map([...shape, ["content", null]]))];
}

function withArgumentsText(call: JsonValue): JsonValue {
  const body = call instanceof Map ? call.get("function") : null;
  if (!(call instanceof Map) || !(body instanceof Map)) return call;
  const text = dumpJson(body.get("arguments") ?? null, { ensureAscii: false });
  return new Map([...call, ["function", new Map([...body, ["arguments", text]])]]);
}

const json = (args: string): string => `<tool_call>\n{"name": "find_order", "arguments": ${args}}\n</tool_call>`;

/** Formats whose calls the parsers' own table cannot spell as an action. */
const spellings: Readonly<Record<string, (args: string) => string>> = {
  qwen25: json,
  hermes: json,
  kimi_k2: (args) =>
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.find_order:0<|tool_call_argument_begin|>" +
    `${args}<|tool_call_end|><|tool_calls_section_end|>`,
  deepseekv3: (args) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>find_order\n\`\`\`json\n${args}\n\`\`\`` +
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
  deepseekv31: (args) =>
    `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>find_order<｜tool▁sep｜>${args}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
  "gpt-oss": (args) => `<|channel|>commentary to=functions.find_order <|constrain|>json<|message|>${args}`,
};

/** Parsers whose calls the audit can spell. */
export const spelledParsers: readonly string[] = Object.keys(spellings);

/** A call of order 1 as the parser reads it; `null` if the spelling of its format is unknown. */
export function spelledOrder(parser: string): string | null {
  if (Object.hasOwn(spellings, parser)) return spellings[parser]!(argumentsOf(0));
  const known = spelledCall(parser, "find_order");
  return known?.replaceAll("city", "order_id").replaceAll("Rome", "#W1") ?? null;
}

export const auditContents = {
  question: "Where is my order?",
  answer: "Your order ships today.",
  thought: "The order number helps.",
  results: ["It ships on Monday.", "It ships on Friday."],
  next: "Thank you kindly.",
  rule: "Be brief from now on.",
} as const;

export type SampledAnswer = {
  /** Text of the answer without the token that ends it. */
  readonly body: string;
  /**
   * The token that ends the answer; `null` if it ends with the token that opens the next message.
   */
  readonly end: string | null;
  readonly reasoning: string | null;
  /** Number of calls in the answer. */
  readonly calls: number;
};

export type SampledAnswers = {
  /** Text that the template adds for an answer to follow. */
  readonly generationPrompt: string;
  /**
   * True if the generation prompt closes the thinking before an answer begins: the model does not
   * think.
   */
  readonly closesThinking: boolean;
  readonly answer: SampledAnswer;
  /** The same with white space around the content. */
  readonly padded: SampledAnswer;
  /** Only the text that a template writes before the content. */
  readonly empty: SampledAnswer;
  /** `null` if the model does not think. */
  readonly thought: SampledAnswer | null;
  readonly call: SampledAnswer;
  /** The same without the blanks in its JSON; `null` if it has none. */
  readonly closeCall: SampledAnswer | null;
  /**
   * False if `call` is in the format of `qwen25` because the spelling of the parser's own format is
   * unknown.
   */
  readonly isCallSpelled: boolean;
  /** `null` if the template does not write two calls in one answer. */
  readonly calls: SampledAnswer | null;
  readonly thoughtCall: SampledAnswer | null;
  /**
   * The call as the template writes it, if it differs from `call`; `null` if they are equal, or the
   * template writes none.
   */
  readonly otherCall: string | null;
  readonly writesCalls: boolean;
};

const question = { role: "user", content: auditContents.question } as const;

/**
 * Throws a plain error if the template refuses a question: no renderer can work with such a
 * template.
 */
export function sampledAnswers(audited: AuditedTemplate): SampledAnswers {
  const frame = answerFrame(audited, [question]);
  const { start, end, opensThinking, closesThinking } = frame;
  const { thought } = auditContents;
  const thinks = audited.parsers.reasoningParser !== null && !closesThinking;
  /** An answer as the template writes it; `null` if it does not write it. */
  const write = (
    { content = "", reasoning = null, calls = 0, idOf = callIds[0]! }: Parts,
    mustHold: string,
  ): SampledAnswer | null => {
    const toolCalls = Array.from({ length: calls }, (_, index): ToolCall => {
      return { id: idOf(index), name: "find_order", argumentsText: argumentsOf(index) };
    });
    const message: AssistantMessage = { role: "assistant", content, reasoning, toolCalls };
    const sampled = writtenAnswer(audited, { frame, message, mustHold });
    if (sampled === null) return null;
    const body = opensThinking || start === "" ? sampled.body : withoutEmptyThought(sampled.body, frame);
    return { ...sampled, body, reasoning, calls };
  };
  const content = auditContents.answer;
  const answer = write({ content }, content) ?? { end: null, reasoning: null, calls: 0, body: content };
  const saying = (other: string): SampledAnswer => ({ ...answer, body: answer.body.replace(content, other) });

  const isRead = (sampled: SampledAnswer): boolean =>
    audited.read(sampled, 0).toolCalls.some(({ name }) => name === "find_order");
  const ownCalls = callIds.flatMap((idOf) => {
    const sampled = write({ calls: 1, idOf }, "#W1");
    return sampled === null ? [] : [{ idOf, sampled }];
  });
  const own = ownCalls.find(({ sampled }) => isRead(sampled)) ?? ownCalls[0] ?? null;
  const ownCall = own?.sampled ?? null;
  const spelling = spelledOrder(audited.parsers.toolCallParser.name);
  const spelled = {
    reasoning: null,
    calls: 1,
    body: (opensThinking ? `${end}\n\n` : "") + (spelling ?? json(argumentsOf(0))),
    end: ownCall?.end ?? null,
  };
  const call = ownCall !== null && isRead(ownCall) ? ownCall : spelled;
  const idOf = own?.idOf ?? callIds[0]!;
  const close = call.body.replaceAll(/(": |, ")/g, (text) => text.replace(" ", ""));

  const ownThought = write({ content, reasoning: thought }, thought);
  const isPrefixed = ownThought !== null && ownThought.body.endsWith(answer.body);
  const opened = opensThinking ? `${thought}\n` : `${start}\n${thought}\n`;
  /** Puts a thought before an answer that has none; `null` if the spelling is unknown. */
  const withThought = (text: SampledAnswer): SampledAnswer | null => {
    const lead = isPrefixed ? ownThought.body.slice(0, ownThought.body.length - answer.body.length) : null;
    if (lead === null && start === "") return null;
    const rest = text.body.trimStart();
    const isClosed = opensThinking && rest.startsWith(end);
    const body = lead === null ? opened + (isClosed ? "" : `${end}\n\n`) + rest : lead + text.body;
    return { ...text, body, reasoning: thought };
  };
  const ownThoughtCall = write({ calls: 1, reasoning: thought, idOf }, thought);
  const isWhole = ownThoughtCall !== null && ownThoughtCall.body.includes("#W1") && call === ownCall;
  return {
    generationPrompt: frame.generationPrompt,
    closesThinking,
    answer,
    padded: saying(`\n ${content} \n`),
    empty: saying(""),
    thought: thinks ? (ownThought ?? withThought(answer)) : null,
    call,
    closeCall: close === call.body ? null : { ...call, body: close },
    isCallSpelled: call === ownCall || spelling !== null,
    calls: call === ownCall ? write({ calls: 2, idOf }, "#W2") : null,
    thoughtCall: !thinks ? null : isWhole ? ownThoughtCall : withThought(call),
    otherCall: ownCall === null || call === ownCall ? null : ownCall.body,
    writesCalls: ownCall !== null,
  };
}

/** Ids of calls: nine characters, because some templates accept no others, then the form that Kimi's models write. */
const callIds: readonly ((index: number) => string)[] = [
  (index) => `call0000${index}`,
  (index) => `functions.find_order:${index}`,
];

type Parts = {
  readonly content?: string;
  readonly reasoning?: string | null;
  readonly calls?: number;
  readonly idOf?: (index: number) => string;
};

function argumentsOf(index: number): string {
  return `{"order_id": "#W${index + 1}"}`;
}

/**
 * Removes the empty thought that templates write before an answer without one; a model that does
 * not think writes none.
 */
function withoutEmptyThought(text: string, { start, end }: AnswerFrame): string {
  const open = text.indexOf(start);
  const close = text.indexOf(end);
  if (open === -1 || close < open || text.slice(open + start.length, close).trim() !== "") return text;
  return text.slice(0, open) + text.slice(close + end.length).trimStart();
}
