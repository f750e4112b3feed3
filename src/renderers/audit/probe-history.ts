// What happens when a message is added: whether the template still writes all that the policy saw and sampled, and what the
// loop's renderer makes of it. Plays short conversations as the loop plays them, with the answer that a model would sample.

import { type Message, type ParsedAction, ConfigurationError, type AssistantMessage } from "../../core/index.ts";
import { ChatTemplateError } from "../chat-template.ts";
import { type AuditedTemplate, auditTool } from "./audited-template.ts";
import { auditContents, type SampledAnswer, type SampledAnswers, openerOf, renderParts } from "./sampled-answers.ts";
import type { HistoryFinding, Difference, HistoryChange, RoundTripFinding } from "./template-audit.ts";

const question: Message = { role: "user", content: auditContents.question };

/** The answers that are tried, in the order of the table. */
export function roundTripsOf(texts: SampledAnswers): readonly (readonly [kind: string, text: SampledAnswer])[] {
  const all: (readonly [string, SampledAnswer | null])[] = [
    ["answer", texts.answer],
    ["answer in blanks", texts.padded],
    ["thinking and answer", texts.thought],
    ["call", texts.call],
    ["call without blanks", texts.closeCall],
    ["two calls", texts.calls],
    ["thinking and call", texts.thoughtCall],
  ];
  return all.filter((entry): entry is readonly [string, SampledAnswer] => entry[1] !== null);
}

export function probeRoundTrip(audited: AuditedTemplate, kind: string, sampled: SampledAnswer): RoundTripFinding {
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
  const mustHold = sampled.calls > 0 ? "#W1" : auditContents.answer;
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

const excerptLength = 48;
/** Of the tool's definition. */
const toolDescription = "Finds an order.";

type Parted = {
  /** All that the policy saw and sampled. */
  readonly seen: string;
  /** Where in it the last answer begins, and where it ends. */
  readonly answer: { readonly start: number; readonly end: number };
  /** What the template writes now. */
  readonly written: string;
  /** The messages before the new ones, the question first. */
  readonly history: readonly Message[];
  readonly newMessages: readonly Message[];
  /** Tags of thinking; empty for families that do not think or mark it otherwise. */
  readonly thinkTags: readonly string[];
};

/** `null` when the new text begins with the old one. */
export function nameChange(parted: Parted): Difference | null {
  const { seen, written } = parted;
  if (written.startsWith(seen)) return null;
  let at = 0;
  while (at < seen.length && seen[at] === written[at]) at++;
  // A tag in which they part is shown whole.
  const tag = /[<[][^<>[\]]{0,20}$/.exec(seen.slice(0, at));
  const place = tag?.index ?? at;
  return {
    change: changeAt(at, parted),
    seen: seen.slice(place, place + excerptLength),
    written: written.slice(place, place + excerptLength),
  };
}

function changeAt(at: number, { seen, written, answer, history, newMessages, thinkTags }: Parted): HistoryChange {
  const first = written.indexOf(history[0]?.content ?? "");
  const places = newMessages.filter(({ content }) => content !== "").map(({ content }) => written.indexOf(content));
  if (places.includes(-1)) return "drops-message";
  if (places.some((place) => place < first)) return "moves-message";
  if (occurrences(written, auditContents.thought) < occurrences(seen, auditContents.thought)) return "drops-thinking";
  const bare = (text: string): string => text.replace(/\s+/g, "");
  if (bare(written).startsWith(bare(seen))) return "white-space";
  const unthought = (text: string): string => bare(thinkTags.reduce((rest, tag) => rest.replaceAll(tag, ""), text));
  if (unthought(written).startsWith(unthought(seen))) return "think-block";
  if (written.indexOf(toolDescription) > seen.indexOf(toolDescription)) return "moves-tools";
  if (at >= answer.end) return "answer-end";
  return at >= answer.start && seen.slice(answer.start, answer.end).includes("find_order")
    ? "rewrites-call"
    : "rewrites-text";
}

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}

type Step = {
  readonly sampled: SampledAnswer;
  /** True: the token limit cut it off, and no end was sampled. */
  readonly isCutOff?: boolean;
  readonly answer: (action: ParsedAction) => readonly Message[];
};

/** A conversation whose last message is the one that is looked at. */
export type Scenario = { readonly kind: string; readonly steps: readonly Step[] };

const opening: readonly Message[] = [{ role: "user", content: auditContents.question }];

const user = (): readonly Message[] => [{ role: "user", content: auditContents.next }];
const rule = (): readonly Message[] => [{ role: "system", content: auditContents.rule }];
/** As the loop shows results: named, with the id of the call they answer. */
const results =
  (count: number) =>
  ({ toolCalls }: ParsedAction): readonly Message[] =>
    auditContents.results.slice(0, count).map((content, index) => ({
      role: "tool",
      content,
      name: "find_order",
      callId: toolCalls[index]?.id ?? null,
    }));

/** Everything that is tried with a template, in the order of the table. */
export function scenariosOf(texts: SampledAnswers): readonly Scenario[] {
  const { answer, padded, empty, thought, call, closeCall, calls, thoughtCall } = texts;
  const scenarios: (Scenario | null)[] = [
    { kind: "answer, user", steps: [{ sampled: answer, answer: user }] },
    { kind: "answer in blanks, user", steps: [{ sampled: padded, answer: user }] },
    { kind: "empty answer, user", steps: [{ sampled: empty, answer: user }] },
    { kind: "cut-off answer, user", steps: [{ sampled: answer, isCutOff: true, answer: user }] },
    thought && { kind: "thinking and answer, user", steps: [{ sampled: thought, answer: user }] },
    { kind: "call, result", steps: [{ sampled: call, answer: results(1) }] },
    closeCall && { kind: "call without blanks, result", steps: [{ sampled: closeCall, answer: results(1) }] },
    calls && { kind: "two calls, two results", steps: [{ sampled: calls, answer: results(2) }] },
    thoughtCall && { kind: "thinking and call, result", steps: [{ sampled: thoughtCall, answer: results(1) }] },
    {
      kind: "call, result, answer, user",
      steps: [
        { sampled: call, answer: results(1) },
        { sampled: answer, answer: user },
      ],
    },
    thoughtCall && thought
      ? {
          kind: "the same, thinking each time",
          steps: [
            { sampled: thoughtCall, answer: results(1) },
            { sampled: thought, answer: user },
          ],
        }
      : null,
    { kind: systemInTheMiddle, steps: [{ sampled: answer, answer: rule }] },
  ];
  return scenarios.filter((scenario) => scenario !== null);
}

/** Loops add none, so a template that refuses it can be trained with all the same. */
export const systemInTheMiddle = "answer, system message";

export type Probe = {
  readonly finding: HistoryFinding;
  /** What the renderer appended against what the template writes at the end; `null` when they agree or nothing was appended. */
  readonly stray: string | null;
};

/** Plays one conversation. */
export function probeHistory(audited: AuditedTemplate, { kind, steps }: Scenario): Probe {
  let messages = opening;
  let probe: Probe | null = null;
  for (const [turn, step] of steps.entries()) {
    probe = probeStep(audited, { kind, step, messages, turn });
    if (probe.finding.error !== null) return probe;
    const action = audited.read(step.sampled, turn);
    messages = [...messages, asSampled(action), ...step.answer(action)];
  }
  if (probe === null) throw new Error(`Cannot probe "${kind}": it has no steps.`);
  return probe;
}

type Place = {
  readonly kind: string;
  readonly step: Step;
  readonly messages: readonly Message[];
  readonly turn: number;
};

function probeStep(audited: AuditedTemplate, { kind, step, messages, turn }: Place): Probe {
  const { family, renderer, tokenizer } = audited;
  const tools = [auditTool];
  const action = audited.read(step.sampled, turn);
  const history = [...messages, asSampled(action)];
  const newMessages = step.answer(action);
  const before = audited.render(messages, { addGenerationPrompt: true });
  const after = audited.render([...history, ...newMessages], { addGenerationPrompt: true });
  const refused = (error: string): Probe => ({
    // The loop renders with the same template, which refuses it there too.
    finding: { kind, template: "refuses", difference: null, loop: "fails", error },
    stray: null,
  });
  if (before.type === "refused") return refused(before.error.message);
  if (after.type === "refused") return refused(after.error.message);
  const body = step.sampled.body;
  const end = step.sampled.end ?? openerOf(after, history.length, audited);
  const ended = before.text + body + (step.isCutOff === true ? (family.endToken ?? "") : end);
  const difference = nameChange({
    seen: ended,
    answer: { start: before.text.length, end: before.text.length + body.length },
    written: after.text,
    history,
    newMessages,
    thinkTags: family.reasoningParser?.markers.length === 2 ? family.reasoningParser.markers : [],
  });
  const lastAction = tokenizer.encode(body + (step.isCutOff === true ? "" : end));
  const bridged = attempt(() => renderer.bridge({ messages: history, tools, lastAction, newMessages }));
  const template = difference === null ? "keeps" : "rewrites";
  if ("error" in bridged) {
    return { finding: { kind, template, difference, loop: "fails", error: bridged.error }, stray: null };
  }
  const { value } = bridged;
  if (value.type === "refused") {
    return { finding: { kind, template, difference, loop: "branches", error: null }, stray: null };
  }
  const appended = tokenizer.decode(value.tokens);
  const expected = tokenizer.decode(tokenizer.encode(after.text));
  const isWritten =
    difference === null
      ? expected === tokenizer.decode(tokenizer.encode(before.text)) + tokenizer.decode(lastAction) + appended
      : expected.endsWith(withoutEnd(appended, step, audited));
  return {
    finding: { kind, template, difference, loop: difference === null ? "extends" : "keeps-stream", error: null },
    stray: isWritten ? null : appended,
  };
}

/** A cut-off answer gets the end token that it lacks, which the template need not write there. */
function withoutEnd(appended: string, { isCutOff }: Step, { family: { endToken } }: AuditedTemplate): string {
  return isCutOff === true && endToken !== null && appended.startsWith(endToken)
    ? appended.slice(endToken.length)
    : appended;
}

/** An action in the history of an episode: what was sampled, as text. */
function asSampled({ text }: ParsedAction): Message {
  return { role: "assistant", content: text, reasoning: null, toolCalls: [] };
}

function attempt<Value>(action: () => Value): { readonly value: Value } | { readonly error: string } {
  try {
    return { value: action() };
  } catch (error) {
    if (error instanceof ChatTemplateError || error instanceof ConfigurationError) return { error: error.message };
    throw error;
  }
}
