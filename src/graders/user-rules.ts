// Rules that attribute a failure to the simulated user. Each reports a finding only if it can quote
// the line: a wrong "user" label removes a valid failure from training, a missed one costs little.
// The most certain rules come first.

import { type Tool, toolParameters } from "../core/index.ts";
import type { JsonValue } from "../python-semantics/json/value.ts";
import { findUserCallFault } from "./user-call-rules.ts";
import {
  type Conversation,
  type ConversationStep,
  plain,
  type TaskFacts,
  instructionFacts,
  type Finding,
  quote,
  isChange,
  isRead,
} from "./conversation.ts";

type Rule = (conversation: Conversation, facts: TaskFacts) => Finding | null;

const rules: readonly Rule[] = [
  findMalformedLine,
  findWithheldFact,
  findInventedIdentifier,
  findOtherWish,
  findUnfinishedHangUp,
  findIgnoredRequest,
  findUserCallFault,
];

/** Finding of the first rule that applies; `null` if none does. */
export function findUserFault(conversation: Conversation, facts: TaskFacts): Finding | null {
  for (const rule of rules) {
    const finding = rule(conversation, facts);
    if (finding !== null) return finding;
  }
  return null;
}

/**
 * A line that no customer writes: empty, with a placeholder that was not filled in, or a line of
 * the agent's role.
 */
function findMalformedLine(conversation: Conversation): Finding | null {
  for (const step of conversation) {
    if (step.type !== "user") continue;
    if (step.text.trim() === "" && !step.hangsUp) {
      return { rule: "empty-line", evidence: "The user sent an empty line." };
    }
    const blanks = step.text.match(/\[[^[\]]{1,80}\]/g) ?? [];
    if (blanks.some((blank) => /\b(id|name|number|e-?mail|date|code|zip|address|insert|your)\b/i.test(blank)))
      return { rule: "placeholder", evidence: `The user left a blank to be filled in: ${quote(step.text)}` };
    if (/^\s*(agent|assistant|system)\s*:/i.test(step.text)) {
      return { rule: "wrong-role", evidence: `The user spoke as the agent: ${quote(step.text)}` };
    }
  }
  return null;
}

/**
 * The agent asked for a fact that the user knows, the user never mentioned it, no call used it, and
 * nothing was changed without it.
 */
function findWithheldFact(conversation: Conversation, facts: TaskFacts): Finding | null {
  const made = conversation.some((step) => step.type === "call" && !step.isError && isChange(step.name));
  if (made) return null;
  for (const { name, value } of instructionFacts(facts)) {
    if (conversation.some((step) => step.type !== "agent" && mentions(step, value))) continue;
    const request = conversation.findIndex((step) => step.type === "agent" && asksFor(step.text, name));
    const answer = request === -1 ? undefined : conversation.slice(request).find((step) => step.type === "user");
    if (answer?.type !== "user") continue;
    return {
      rule: "withheld-fact",
      evidence: `The user knew its ${name}, was asked for it and never gave it; it answered: ${quote(answer.text)}`,
    };
  }
  return null;
}

function mentions(step: ConversationStep, value: string): boolean {
  if (step.type === "user") return step.text.includes(value);
  return step.type === "call" && [...step.arguments.values()].includes(value);
}

function asksFor(text: string, fact: string): boolean {
  return ` ${plain(text)} `.includes(` ${fact} `) && /\?|please|need|provide|share|require/i.test(text);
}

/**
 * Identifiers of records, such as `ana_lee_1234`, `#W1042358`, `HXDUB7`, as opposed to words and
 * amounts.
 */
const identifier = /#?\b(?:[a-z]+(?:_[a-z]+)*_\d{3,}|(?=[A-Z0-9]*\d)[A-Z][A-Z0-9]{5,})\b/g;

/**
 * The user named a record that is neither in its instruction nor in any earlier utterance or
 * result.
 */
function findInventedIdentifier(conversation: Conversation, facts: TaskFacts): Finding | null {
  if (facts.instruction === null) return null;
  const instructed = instructionFacts(facts).map(({ value }) => value);
  const seen = [facts.instruction.toLowerCase()];
  for (const step of conversation) {
    if (step.type === "agent") seen.push(step.text.toLowerCase());
    if (step.type === "call" || step.type === "user-call") seen.push(step.result.toLowerCase());
    if (step.type !== "user") continue;
    for (const [found] of step.text.matchAll(identifier)) {
      const word = found.toLowerCase();
      if (seen.some((text) => text.includes(word)) || instructed.some((value) => word.includes(value.toLowerCase())))
        continue;
      return {
        rule: "invented-identifier",
        evidence: `The user named "${found}", which it was neither told nor shown: ${quote(step.text)}`,
      };
    }
  }
  return null;
}

function findOtherWish(conversation: Conversation, facts: TaskFacts): Finding | null {
  if (facts.instruction === null || facts.expectedCalls === null) return null;
  return findOtherChoice(conversation, facts) ?? findOtherChange(conversation, facts);
}

/**
 * The user's last statement on a choice names a value that is neither expected nor in the
 * instruction, and a call was made with it.
 */
function findOtherChoice(conversation: Conversation, facts: TaskFacts): Finding | null {
  for (const { parameter, values } of choicesOf(facts.tools)) {
    const expected = new Set(facts.expectedCalls?.map((call) => call.arguments.get(parameter)));
    if (!values.some((value) => expected.has(value))) continue;
    const named = (text: string): string[] => namedValues(text, values);
    const instructed = new Set(named(facts.instruction ?? ""));
    const last = conversation.findLast((step) => step.type === "user" && named(step.text).length > 0);
    if (last?.type !== "user") continue;
    const others = named(last.text).filter((value) => !expected.has(value));
    if (others.length !== named(last.text).length) continue;
    const made = others.find(
      (value) =>
        !instructed.has(value) &&
        conversation.some((step) => step.type === "call" && step.arguments.get(parameter) === value),
    );
    if (made === undefined) continue;
    return {
      rule: "other-choice",
      evidence: `The user asked for ${plain(parameter)} "${plain(made)}", which it was not told to want: ${quote(last.text)}`,
    };
  }
  return null;
}

/**
 * Verbs that request a change, by the verbs in tool names. Nouns ("my booking") request nothing.
 */
const kinds: readonly { readonly tool: RegExp; readonly instructed: RegExp; readonly requested: RegExp }[] = [
  {
    tool: /^(book|buy|purchase)/,
    instructed: / (book|buy|purchas|reserve )/,
    requested: / (book|buy|purchase|reserve) /,
  },
  { tool: /^cancel/, instructed: / cancel/, requested: / cancel / },
  { tool: /^exchange/, instructed: / (exchang|swap|replac)/, requested: / (exchange|swap|replace) / },
  { tool: /^return/, instructed: / (return|send back|refund)/, requested: / (return|send back) / },
];

/**
 * An unexpected call of such a kind succeeded after the user requested it, although neither the
 * instruction nor an offer of the agent mentions it.
 */
function findOtherChange(conversation: Conversation, facts: TaskFacts): Finding | null {
  const instructed = ` ${plain(facts.instruction ?? "")} `;
  const expected = new Set(facts.expectedCalls?.map(({ name }) => name));
  for (const [at, step] of conversation.entries()) {
    if (step.type !== "call" || step.isError || isRead(step.name) || expected.has(step.name)) continue;
    const kind = kinds.find(({ tool }) => tool.test(step.name));
    if (kind === undefined || kind.instructed.test(instructed)) continue;
    const request = conversation
      .slice(0, at)
      .find((one) => one.type === "user" && kind.requested.test(` ${plain(one.text)} `));
    if (request?.type !== "user") continue;
    const before = conversation.slice(0, conversation.indexOf(request));
    if (before.some((one) => one.type === "agent" && offers(one.text, kind.instructed))) continue;
    return {
      rule: "other-change",
      evidence: `The user asked for "${step.name}", which it was not told to want: ${quote(request.text)}`,
    };
  }
  return null;
}

/**
 * True if one sentence offers such a change; a statement that it would be possible is not an offer.
 */
function offers(text: string, kind: RegExp): boolean {
  return text
    .split(/(?<=[.?!])\s/)
    .some(
      (sentence) => /would you like|do you want|shall i|should i/i.test(sentence) && kind.test(` ${plain(sentence)} `),
    );
}

type Choice = { readonly parameter: string; readonly values: readonly string[] };

/**
 * Parameters whose schema lists their values. Short values ("yes") are too ambiguous to be
 * recognized in prose.
 */
function choicesOf(tools: readonly Tool[]): Choice[] {
  const choices = new Map<string, Choice>();
  for (const tool of tools) {
    const properties = field(toolParameters(tool), "properties");
    if (!(properties instanceof Map)) continue;
    for (const [parameter, schema] of properties) {
      const listed = field(schema, "enum");
      if (!Array.isArray(listed)) continue;
      const values = listed.filter((value) => typeof value === "string").filter(({ length }) => length >= 4);
      choices.set(`${parameter} ${values.join(" ")}`, { parameter, values });
    }
  }
  return [...choices.values()];
}

function field(value: JsonValue, name: string): JsonValue {
  return value instanceof Map ? (value.get(name) ?? null) : null;
}

/**
 * Values named in a text, longest first so that "basic economy" is not "economy"; declined values
 * are excluded.
 */
function namedValues(text: string, values: readonly string[]): string[] {
  // A refusal extends only to the end of its clause: "No, basic" does not refuse basic.
  let rest = text
    .split(/[.,:;!?]/)
    .map(plain)
    .join(" / ");
  const found: string[] = [];
  for (const value of values.toSorted((a, b) => b.length - a.length)) {
    const pattern = new RegExp(
      `(\\b(?:not|no|t|without|instead of)(?: \\w+)? )?\\b${plain(value).replaceAll(" ", " ?")}\\b`,
      "g",
    );
    rest = rest.replaceAll(pattern, (_, refusal: string | undefined) => {
      if (refusal === undefined) found.push(value);
      return " ";
    });
  }
  return [...new Set(found)];
}

const goAhead =
  /\b(go ahead|please proceed|(?:yes|sure),? (?:please|proceed)|please (?:issue|book|cancel|change|update|make|send|process|add|complete))\b/i;
const dropped = /\b(never ?mind|forget (?:it|about it))\b/i;

/**
 * The user hung up while the agent still had something to do: in the line that requests it, or
 * after an open question.
 */
function findUnfinishedHangUp(conversation: Conversation, facts: TaskFacts): Finding | null {
  const last = conversation.at(-1);
  if (last?.type !== "user" || !last.hangsUp) return null;
  if (goAhead.test(last.text)) {
    return {
      rule: "hung-up-on-own-request",
      evidence: `The user hung up in the line that asks for something: ${quote(last.text)}`,
    };
  }
  const before = conversation.at(-2);
  const isQuestion = before?.type === "agent" && before.text.includes("?");
  if (!isQuestion || !dropped.test(last.text)) return null;
  const made = new Set(conversation.map((step) => (step.type === "call" ? step.name : null)));
  const open = facts.expectedCalls?.find(({ name }) => !isRead(name) && !made.has(name));
  if (open === undefined) return null;
  return {
    rule: "hung-up-on-open-question",
    evidence: `The user dropped what it had begun while "${open.name}" was still to be done: ${quote(last.text)}`,
  };
}

/**
 * The agent named one of the user's tools at least twice, and the user replied with text and never
 * called it.
 */
function findIgnoredRequest(conversation: Conversation, { userTools }: TaskFacts): Finding | null {
  for (const { name } of userTools) {
    // A tool name of one word may be an ordinary word.
    if (!name.includes("_") || conversation.some((step) => step.type === "user-call" && step.name === name)) continue;
    const named = new RegExp(`\\b${name.replaceAll(/\W/g, "\\$&")}\\b`);
    const answers = conversation.filter((step, at) => {
      const before = conversation[at - 1];
      return step.type === "user" && before?.type === "agent" && named.test(before.text);
    });
    const last = answers.at(-1);
    if (last?.type !== "user" || answers.length < 2) continue;
    return {
      rule: "ignored-request",
      evidence: `The user was asked ${answers.length} times to use "${name}", which it has, and never did; it answered: ${quote(last.text)}`,
    };
  }
  return null;
}
