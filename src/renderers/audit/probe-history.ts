// Tests the effect of adding a message: whether the template still writes all that the policy saw
// and sampled, and how the loop's renderer reacts. Runs short conversations as the loop runs them,
// with the answer that a model would sample.

import {
  AttributedError,
  type BridgeResult,
  ConfigurationError,
  type Message,
  type ParsedAction,
} from "../../core/index.ts";
import { ChatTemplateError } from "../chat-template.ts";
import { lostMessage, lostMessageError } from "../segments.ts";
import { type AuditedTemplate, auditTool } from "./audited-template.ts";
import { auditContents, openerOf, renderParts, type SampledAnswer, type SampledAnswers } from "./sampled-answers.ts";
import type { Difference, HistoryChange, HistoryFinding, RoundTripFinding } from "./template-audit.ts";

const opening: readonly Message[] = [{ role: "user", content: auditContents.question }];

/** The answers that are tried, in the order of the table. */
export function roundTripsOf(answers: SampledAnswers): readonly (readonly [kind: string, answer: SampledAnswer])[] {
  const kinds: Readonly<Record<string, SampledAnswer | null>> = {
    answer: answers.answer,
    "answer in blanks": answers.padded,
    "thinking and answer": answers.thought,
    call: answers.call,
    "call without blanks": answers.closeCall,
    "two calls": answers.calls,
    "thinking and call": answers.thoughtCall,
  };
  return Object.entries(kinds).flatMap(([kind, sampled]) => (sampled === null ? [] : [[kind, sampled] as const]));
}

export function probeRoundTrip(audited: AuditedTemplate, kind: string, sampled: SampledAnswer): RoundTripFinding {
  const { tokenizer } = audited;
  const before = audited.render(opening, { addGenerationPrompt: true });
  if (before.type === "refused") throw new Error(before.error.message);
  const { content, reasoning, toolCalls } = audited.read(sampled, 0);
  const apart = [...tokenizer.encode(before.text), ...tokenizer.encode(sampled.body)];
  const sameTokens = apart.join() === tokenizer.encode(before.text + sampled.body).join();
  const finding = { kind, difference: null, error: null, sameTokens };
  const isRead =
    toolCalls.length === sampled.calls &&
    toolCalls.every(({ name }) => name === "find_order") &&
    (reasoning?.trim() ?? null) === sampled.reasoning;
  if (!isRead) return { ...finding, outcome: "unread" };
  const after = renderParts(audited, {
    history: opening,
    message: { role: "assistant", content, reasoning, toolCalls },
    mustHold: sampled.calls > 0 ? "#W1" : auditContents.answer,
  });
  if (after.type === "refused") return { ...finding, outcome: "refused", error: after.error.message };
  const difference = nameChange({
    prompt: before.text,
    body: sampled.body,
    end: sampled.end ?? "",
    written: after.text,
    newMessages: [],
    thinkTags: audited.thinkTags,
  });
  return { ...finding, outcome: difference === null ? "same" : "differs", difference };
}

const excerptLength = 48;
/** Description in the tool's definition. */
const toolDescription = "Finds an order.";

type Parted = {
  /**
   * The text that the policy saw; `body` is the text that it sampled, `end` the token that ended
   * it.
   */
  readonly prompt: string;
  readonly body: string;
  readonly end: string;
  /** Text that the template writes now. */
  readonly written: string;
  readonly newMessages: readonly Message[];
  /** Tags of thinking; empty for families that do not think or mark it otherwise. */
  readonly thinkTags: readonly string[];
};

/** `null` when the new text begins with the old one. */
function nameChange(parted: Parted): Difference | null {
  const { written } = parted;
  const seen = parted.prompt + parted.body + parted.end;
  if (written.startsWith(seen)) return null;
  let at = 0;
  while (at < seen.length && seen[at] === written[at]) at++;
  // A tag in which the renderings begin to differ is shown whole.
  const tag = /[<[][^<>[\]]{0,20}$/.exec(seen.slice(0, at));
  const place = tag?.index ?? at;
  return {
    change: changeAt(at, seen, parted),
    seen: seen.slice(place, place + excerptLength),
    written: written.slice(place, place + excerptLength),
  };
}

function changeAt(at: number, seen: string, parted: Parted): HistoryChange {
  const { prompt, body, written, newMessages, thinkTags } = parted;
  const first = written.indexOf(auditContents.question);
  const places = newMessages.filter(({ content }) => content !== "").map(({ content }) => written.indexOf(content));
  if (places.includes(-1)) return "drops-message";
  if (places.some((place) => place < first)) return "moves-message";
  if (occurrences(written, auditContents.thought) < occurrences(seen, auditContents.thought)) return "drops-thinking";
  const bare = (text: string): string => text.replace(/\s+/g, "");
  if (bare(written).startsWith(bare(seen))) return "white-space";
  const unthought = (text: string): string => bare(thinkTags.reduce((rest, tag) => rest.replaceAll(tag, ""), text));
  if (unthought(written).startsWith(unthought(seen))) return "think-block";
  if (written.indexOf(toolDescription) > seen.indexOf(toolDescription)) return "moves-tools";
  if (at >= prompt.length + body.length) return "answer-end";
  return at >= prompt.length && body.includes("find_order") ? "rewrites-call" : "rewrites-text";
}

function occurrences(text: string, part: string): number {
  return text.split(part).length - 1;
}

type Step = {
  readonly sampled: SampledAnswer;
  readonly respond: (action: ParsedAction) => readonly Message[];
  /** True if the token limit ended the answer before its end token was sampled. */
  readonly isTruncated: boolean;
};

/** A conversation whose last message is examined. */
export type Scenario = { readonly kind: string; readonly steps: readonly Step[] };

const user = (): readonly Message[] => [{ role: "user", content: auditContents.next }];
const rule = (): readonly Message[] => [{ role: "system", content: auditContents.rule }];
/** Tool results in the loop's form: named, with the id of the call they answer. */
const results =
  (count: number): Step["respond"] =>
  ({ toolCalls }) =>
    auditContents.results.slice(0, count).map((content, index) => ({
      role: "tool",
      content,
      name: "find_order",
      callId: toolCalls[index]?.id ?? null,
    }));

/** `null` for an answer that the template or the model does not write. */
function step(sampled: SampledAnswer | null, respond: Step["respond"], isTruncated = false): Step | null {
  return sampled === null ? null : { sampled, respond, isTruncated };
}

/** Loops never add such a message, so a template that refuses it can still be trained with. */
export const systemInTheMiddle = "answer, system message";

/** All conversations that are tried with a template, in the order of the table. */
export function scenariosOf(answers: SampledAnswers): readonly Scenario[] {
  const { answer, padded, empty, thought, call, closeCall, calls, thoughtCall } = answers;
  const kinds: Readonly<Record<string, readonly (Step | null)[]>> = {
    "answer, user": [step(answer, user)],
    "answer in blanks, user": [step(padded, user)],
    "empty answer, user": [step(empty, user)],
    "cut-off answer, user": [step(answer, user, true)],
    "thinking and answer, user": [step(thought, user)],
    "call, result": [step(call, results(1))],
    "call without blanks, result": [step(closeCall, results(1))],
    "two calls, two results": [step(calls, results(2))],
    "thinking and call, result": [step(thoughtCall, results(1))],
    "call, result, answer, user": [step(call, results(1)), step(answer, user)],
    "the same, thinking each time": [step(thoughtCall, results(1)), step(thought, user)],
    [systemInTheMiddle]: [step(answer, rule)],
  };
  return Object.entries(kinds).flatMap(([kind, steps]) => {
    const known = steps.filter((one) => one !== null);
    return known.length === steps.length ? [{ kind, steps: known }] : [];
  });
}

export type Probe = {
  readonly finding: HistoryFinding;
  /**
   * The text that the renderer appended against the text that the template writes at the end;
   * `null` when they agree or nothing was appended.
   */
  readonly stray: string | null;
};

/** Runs one conversation; the finding is about its last step, or the first that fails. */
export function probeHistory(audited: AuditedTemplate, { kind, steps }: Scenario): Probe {
  let messages = opening;
  let probe: Probe | null = null;
  for (const [turn, { sampled, respond, isTruncated }] of steps.entries()) {
    const action = audited.read(sampled, turn);
    // An episode's history holds an action as the sampled text.
    const history: Message[] = [
      ...messages,
      { role: "assistant", content: action.text, reasoning: null, toolCalls: [] },
    ];
    const newMessages = respond(action);
    const found = probeStep(audited, { sampled, isTruncated, messages, history, newMessages });
    probe = { finding: { kind, ...found.finding }, stray: found.stray };
    if (probe.finding.error !== null) return probe;
    messages = [...history, ...newMessages];
  }
  if (probe === null) throw new Error(`Cannot probe "${kind}": it has no steps.`);
  return probe;
}

type Place = Pick<Step, "sampled" | "isTruncated"> & {
  readonly messages: readonly Message[];
  /** The messages and the action after them. */
  readonly history: readonly Message[];
  readonly newMessages: readonly Message[];
};

type StepProbe = { readonly finding: Omit<HistoryFinding, "kind">; readonly stray: string | null };

function probeStep(audited: AuditedTemplate, place: Place): StepProbe {
  const { family, renderer, tokenizer, thinkTags } = audited;
  const { sampled, isTruncated, messages, history, newMessages } = place;
  const before = audited.render(messages, { addGenerationPrompt: true });
  const after = audited.render([...history, ...newMessages], { addGenerationPrompt: true });
  const refused = ({ message }: Error): StepProbe => ({
    // The loop renders with the same template, which refuses it there too.
    finding: { template: "refuses", difference: null, loop: "fails", error: message },
    stray: null,
  });
  if (before.type === "refused") return refused(before.error);
  if (after.type === "refused") return refused(after.error);
  const lost = lostMessage(after.segments, [...history, ...newMessages]);
  const { body } = sampled;
  const sampledEnd = isTruncated ? "" : (sampled.end ?? openerOf(after, history.length, audited));
  const end = isTruncated ? (family.endToken ?? "") : sampledEnd;
  const difference = nameChange({ prompt: before.text, body, end, written: after.text, newMessages, thinkTags });
  const lastAction = tokenizer.encode(body + sampledEnd);
  const found = (loop: HistoryFinding["loop"], error: string | null, stray: string | null): StepProbe => ({
    finding: { template: difference === null ? "keeps" : "rewrites", difference, loop, error },
    stray,
  });
  if (lost !== null) {
    const message = [...history, ...newMessages][lost]!;
    const dropped = { change: "drops-message", seen: message.content.slice(0, excerptLength), written: "" } as const;
    return {
      finding: {
        template: "rewrites",
        difference: dropped,
        loop: "fails",
        error: lostMessageError(family.name, lost, message).message,
      },
      stray: null,
    };
  }
  let bridge: BridgeResult;
  try {
    bridge = renderer.bridge({ messages: history, tools: [auditTool], lastAction, newMessages });
  } catch (error) {
    const isRefusal =
      error instanceof ChatTemplateError || error instanceof ConfigurationError || error instanceof AttributedError;
    if (isRefusal) return found("fails", error.message, null);
    throw error;
  }
  if (bridge.type === "refused") return found("branches", null, null);
  const appended = tokenizer.decode(bridge.tokens);
  const recoded = (text: string): string => tokenizer.decode(tokenizer.encode(text));
  if (difference === null) {
    const isWritten = recoded(after.text) === recoded(before.text) + tokenizer.decode(lastAction) + appended;
    return found("extends", null, isWritten ? null : appended);
  }
  // The loop completes an answer with the missing ends of its thought and of itself, which the
  // template need not write there.
  const endToken = family.endToken ?? "";
  const thought = renderer.unclosedThought?.(body) ?? "";
  const missing = [...(thought === "" ? [] : [thought + endToken]), ...(isTruncated ? [endToken] : [])];
  const added = missing.find((text) => appended.startsWith(text)) ?? "";
  const isWritten = recoded(after.text).endsWith(appended.slice(added.length));
  return found("keeps-stream", null, isWritten ? null : appended);
}
