// Rules that lay a failure on the simulated user. Each is silent unless it can quote the line it speaks of: a wrong "user"
// takes a fair failure out of training, a missed one costs little. Their order is that of certainty.

import type { Conversation, ConversationStep } from "../conversation.ts";
import { plain, type TaskFacts, toldFacts } from "../task-facts.ts";
import { type Finding, quote } from "./finding.ts";
import { findInventedIdentifier } from "./invented-identifier.ts";
import { findOtherWish } from "./other-wish.ts";
import { isChange } from "./is-read.ts";
import { findUnfinishedHangUp } from "./unfinished-hang-up.ts";

type Rule = (conversation: Conversation, facts: TaskFacts) => Finding | null;

const rules: readonly Rule[] = [
  findMalformedLine,
  findWithheldFact,
  findInventedIdentifier,
  findOtherWish,
  findUnfinishedHangUp,
];

/** The first rule that speaks; `null`: none does. */
export function findUserFault(conversation: Conversation, facts: TaskFacts): Finding | null {
  for (const rule of rules) {
    const finding = rule(conversation, facts);
    if (finding !== null) return finding;
  }
  return null;
}

/** A line that no customer writes: empty, a blank left to be filled in, or the agent's own part. */
function findMalformedLine(conversation: Conversation): Finding | null {
  for (const step of conversation) {
    if (step.type !== "user") continue;
    if (step.words.trim() === "" && !step.hangsUp) {
      return { rule: "empty-line", evidence: "The user sent a line without words." };
    }
    const blanks = step.words.match(/\[[^[\]]{1,80}\]/g) ?? [];
    if (blanks.some((blank) => /\b(id|name|number|e-?mail|date|code|zip|address|insert|your)\b/i.test(blank)))
      return { rule: "placeholder", evidence: `The user left a blank to be filled in: ${quote(step.words)}` };
    if (/^\s*(agent|assistant|system)\s*:/i.test(step.words)) {
      return { rule: "wrong-role", evidence: `The user spoke as the agent: ${quote(step.words)}` };
    }
  }
  return null;
}

/** Asked for something it was told, the user never said it, no call could use it, and nothing was changed without it. */
function findWithheldFact(conversation: Conversation, facts: TaskFacts): Finding | null {
  const made = conversation.some((step) => step.type === "call" && !step.isError && isChange(step.name));
  if (made) return null;
  for (const { name, value } of toldFacts(facts)) {
    if (conversation.some((step) => step.type !== "agent" && mentions(step, value))) continue;
    const asked = conversation.findIndex((step) => step.type === "agent" && asksFor(step.words, name));
    const answer = asked === -1 ? undefined : conversation.slice(asked).find((step) => step.type === "user");
    if (answer?.type !== "user") continue;
    return {
      rule: "withheld-fact",
      evidence: `The user was told its ${name}, was asked for it and never said it; it answered: ${quote(answer.words)}`,
    };
  }
  return null;
}

function mentions(step: ConversationStep, value: string): boolean {
  if (step.type === "user") return step.words.includes(value);
  return step.type === "call" && [...step.arguments.values()].includes(value);
}

function asksFor(words: string, fact: string): boolean {
  return ` ${plain(words)} `.includes(` ${fact} `) && /\?|please|need|provide|share|require/i.test(words);
}
