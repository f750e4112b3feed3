// The user asked for something else than it was told to want, and got it. Two forms: another value of a choice that the
// wanted calls settle, and a kind of change that neither the wanted calls nor the instruction know.

import { type Tool, toolParameters } from "../../core/index.ts";
import type { JsonValue } from "../../python-semantics/json/value.ts";
import type { Conversation } from "../conversation.ts";
import { plain, type TaskFacts } from "../task-facts.ts";
import { isRead } from "./is-read.ts";
import { type Finding, quote } from "./finding.ts";

export function findOtherWish(conversation: Conversation, facts: TaskFacts): Finding | null {
  if (facts.instruction === null || facts.wantedCalls === null) return null;
  return findOtherChoice(conversation, facts) ?? findOtherChange(conversation, facts);
}

/** The user's last word on a choice names a value that is neither wanted nor in the instruction, and a call was made with it. */
function findOtherChoice(conversation: Conversation, facts: TaskFacts): Finding | null {
  for (const { parameter, values } of choicesOf(facts.tools)) {
    const wanted = new Set(facts.wantedCalls?.map((call) => call.arguments.get(parameter)));
    if (!values.some((value) => wanted.has(value))) continue;
    const named = (words: string): string[] => namedValues(words, values);
    const told = new Set(named(facts.instruction ?? ""));
    const last = conversation.findLast((step) => step.type === "user" && named(step.words).length > 0);
    if (last?.type !== "user") continue;
    const others = named(last.words).filter((value) => !wanted.has(value));
    if (others.length !== named(last.words).length) continue;
    const made = others.find(
      (value) =>
        !told.has(value) &&
        conversation.some((step) => step.type === "call" && step.arguments.get(parameter) === value),
    );
    if (made === undefined) continue;
    return {
      rule: "other-choice",
      evidence: `The user asked for ${plain(parameter)} "${plain(made)}", which it was not told to want: ${quote(last.words)}`,
    };
  }
  return null;
}

/** Ways of asking for a change, by the verbs that tools are named with. Nouns ("my booking") ask for nothing. */
const kinds: readonly { readonly tool: RegExp; readonly told: RegExp; readonly asked: RegExp }[] = [
  { tool: /^(book|buy|purchase)/, told: / (book|buy|purchas|reserve )/, asked: / (book|buy|purchase|reserve) / },
  { tool: /^cancel/, told: / cancel/, asked: / cancel / },
  { tool: /^exchange/, told: / (exchang|swap|replac)/, asked: / (exchange|swap|replace) / },
  { tool: /^return/, told: / (return|send back|refund)/, asked: / (return|send back) / },
];

/**
 * A call of a kind that is not wanted succeeded after the user asked for it, and neither the instruction nor an offer of the
 * agent knows such a wish.
 */
function findOtherChange(conversation: Conversation, facts: TaskFacts): Finding | null {
  const told = ` ${plain(facts.instruction ?? "")} `;
  const wanted = new Set(facts.wantedCalls?.map(({ name }) => name));
  for (const [at, step] of conversation.entries()) {
    if (step.type !== "call" || step.isError || isRead(step.name) || wanted.has(step.name)) continue;
    const kind = kinds.find(({ tool }) => tool.test(step.name));
    if (kind === undefined || kind.told.test(told)) continue;
    const request = conversation
      .slice(0, at)
      .find((one) => one.type === "user" && kind.asked.test(` ${plain(one.words)} `));
    if (request?.type !== "user") continue;
    const before = conversation.slice(0, conversation.indexOf(request));
    if (before.some((one) => one.type === "agent" && offers(one.words, kind.told))) continue;
    return {
      rule: "other-change",
      evidence: `The user asked for "${step.name}", which it was not told to want: ${quote(request.words)}`,
    };
  }
  return null;
}

/** An offer in one sentence; that something would be possible is none. */
function offers(words: string, kind: RegExp): boolean {
  return words
    .split(/(?<=[.?!])\s/)
    .some(
      (sentence) => /would you like|do you want|shall i|should i/i.test(sentence) && kind.test(` ${plain(sentence)} `),
    );
}

type Choice = { readonly parameter: string; readonly values: readonly string[] };

/** Parameters whose schema lists their values. Short values ("yes") mean too much to be recognised in prose. */
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

/** The values named in a text, longest first so that "basic economy" is not "economy"; those that are turned down are not. */
function namedValues(text: string, values: readonly string[]): string[] {
  // A refusal reaches no further than its clause: "No, basic" is no refusal of basic.
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
