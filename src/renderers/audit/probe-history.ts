// What happens when a message is added: whether the template still writes all that the policy saw and sampled, and what the
// loop's renderer makes of it. Plays short conversations as the loop plays them, with the answer that a model would sample.

import { type Message, type ParsedAction, ConfigurationError } from "../../core/index.ts";
import { ChatTemplateError } from "../chat-template.ts";
import { type AuditedTemplate, auditTool } from "./audited-template.ts";
import { nameChange } from "./name-change.ts";
import { auditWords, type SampledText, type SampledTexts } from "./sampled-texts.ts";
import type { HistoryFinding } from "./template-audit.ts";
import { openerOf } from "./written-answer.ts";

type Step = {
  readonly sampled: SampledText;
  /** True: the token limit cut it off, and no end was sampled. */
  readonly isCutOff?: boolean;
  readonly answer: (action: ParsedAction) => readonly Message[];
};

/** A conversation whose last message is the one that is looked at. */
export type Scenario = { readonly kind: string; readonly steps: readonly Step[] };

const opening: readonly Message[] = [{ role: "user", content: auditWords.question }];

const user = (): readonly Message[] => [{ role: "user", content: auditWords.next }];
const rule = (): readonly Message[] => [{ role: "system", content: auditWords.rule }];
/** As the loop shows results: named, with the id of the call they answer. */
const results =
  (count: number) =>
  ({ toolCalls }: ParsedAction): readonly Message[] =>
    auditWords.results.slice(0, count).map((content, index) => ({
      role: "tool",
      content,
      name: "find_order",
      callId: toolCalls[index]?.id ?? null,
    }));

/** Everything that is tried with a template, in the order of the table. */
export function scenariosOf(texts: SampledTexts): readonly Scenario[] {
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
  const wanted = tokenizer.decode(tokenizer.encode(after.text));
  const isWritten =
    difference === null
      ? wanted === tokenizer.decode(tokenizer.encode(before.text)) + tokenizer.decode(lastAction) + appended
      : wanted.endsWith(withoutEnd(appended, step, audited));
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
