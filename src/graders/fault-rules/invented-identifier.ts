// Identifiers that come from nowhere: a user that does not know a number is to say so, and models like to make one up.

import type { Conversation } from "../conversation.ts";
import { type TaskFacts, toldFacts } from "../task-facts.ts";
import { type Finding, quote } from "./finding.ts";

/** `ana_lee_1234`, `#W1042358`, `HXDUB7`: what names a record, and is no word and no amount. */
const identifier = /#?\b(?:[a-z]+(?:_[a-z]+)*_\d{3,}|(?=[A-Z0-9]*\d)[A-Z][A-Z0-9]{5,})\b/g;

/** The user named a record that stands neither in its instruction nor in anything said or shown before. */
export function findInventedIdentifier(conversation: Conversation, facts: TaskFacts): Finding | null {
  if (facts.instruction === null) return null;
  const told = toldFacts(facts).map(({ value }) => value);
  const seen = [facts.instruction.toLowerCase()];
  for (const step of conversation) {
    if (step.type === "agent") seen.push(step.words.toLowerCase());
    if (step.type === "call") seen.push(step.result.toLowerCase());
    if (step.type !== "user") continue;
    for (const [found] of step.words.matchAll(identifier)) {
      const word = found.toLowerCase();
      if (seen.some((text) => text.includes(word)) || told.some((value) => word.includes(value.toLowerCase())))
        continue;
      return {
        rule: "invented-identifier",
        evidence: `The user named "${found}", which it was neither told nor shown: ${quote(step.words)}`,
      };
    }
  }
  return null;
}
