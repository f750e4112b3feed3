// Hang-ups that leave something undone. A farewell with thanks is none, even where the agent could have done more.

import type { Conversation } from "../conversation.ts";
import type { TaskFacts } from "../task-facts.ts";
import { isRead } from "./is-read.ts";
import { type Finding, quote } from "./finding.ts";

const goAhead =
  /\b(go ahead|please proceed|(?:yes|sure),? (?:please|proceed)|please (?:issue|book|cancel|change|update|make|send|process|add|complete))\b/i;
const dropped = /\b(never ?mind|forget (?:it|about it))\b/i;

/** The user hung up while the agent still had something to do: in the line that asks for it, or on an open question. */
export function findUnfinishedHangUp(conversation: Conversation, facts: TaskFacts): Finding | null {
  const last = conversation.at(-1);
  if (last?.type !== "user" || !last.hangsUp) return null;
  if (goAhead.test(last.words)) {
    return {
      rule: "hung-up-on-own-request",
      evidence: `The user hung up in the line that asks for something: ${quote(last.words)}`,
    };
  }
  const before = conversation.at(-2);
  const isQuestion = before?.type === "agent" && before.words.includes("?");
  if (!isQuestion || !dropped.test(last.words)) return null;
  const made = new Set(conversation.map((step) => (step.type === "call" ? step.name : null)));
  const open = facts.wantedCalls?.find(({ name }) => !isRead(name) && !made.has(name));
  if (open === undefined) return null;
  return {
    rule: "hung-up-on-open-question",
    evidence: `The user dropped what it had begun while "${open.name}" was still to be done: ${quote(last.words)}`,
  };
}
