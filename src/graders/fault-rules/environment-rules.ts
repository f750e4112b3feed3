// Rules that lay a failure on the task: its wanted end cannot be reached, or nobody could have known it. They see what the
// task says of itself; that a wanted end breaks the guidelines takes a reader of prose, so no rule says it.

import { dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { type Conversation } from "../conversation.ts";
import { plain, type TaskFacts } from "../task-facts.ts";
import type { Finding } from "./finding.ts";
import { isRead } from "./is-read.ts";

/** The wanted calls themselves do not earn the reward, or call what is not there. */
export function findEnvironmentFault({ wantedCalls, isReachable, tools }: TaskFacts): Finding | null {
  const unknown = (wantedCalls ?? []).find(({ name }) => tools.every((tool) => tool.name !== name));
  if (unknown !== undefined) {
    return { rule: "wanted-call-unknown", evidence: `The wanted end calls "${unknown.name}", which is no tool.` };
  }
  if (isReachable !== false) return null;
  return {
    rule: "wanted-end-unreachable",
    evidence: "The wanted calls of the task, played as they are, do not earn its reward.",
  };
}

/**
 * The agent made the wanted call, and it differs in an argument alone about which the instruction says nothing: neither the
 * argument's name nor a word of the wanted or the given value stands in it.
 */
export function findUndeterminedEnd(
  conversation: Conversation,
  { instruction, wantedCalls }: TaskFacts,
): Finding | null {
  if (instruction === null || wantedCalls === null) return null;
  const told = ` ${plain(instruction)} `;
  const made = conversation.filter((step) => step.type === "call" && !step.isError);
  const found: string[] = [];
  for (const wanted of wantedCalls) {
    let best: { readonly keys: readonly string[]; readonly made: JsonObject } | null = null;
    for (const call of made) {
      if (call.type !== "call" || call.name !== wanted.name) continue;
      const keys = [...wanted.arguments.keys()].filter(
        (key) => textOf(wanted.arguments.get(key)) !== textOf(call.arguments.get(key)),
      );
      if (best === null || keys.length < best.keys.length) best = { keys, made: call.arguments };
    }
    // A wanted call that was never made is a difference of its own; a read that was never made changes nothing.
    if (best === null && !isRead(wanted.name)) return null;
    if (best === null || best.keys.length === 0 || isRead(wanted.name)) continue;
    for (const key of best.keys) {
      const words = wordsOf(textOf(wanted.arguments.get(key)));
      // A value without words is an identifier or a number, which may well follow from what can be looked up.
      if (words.length === 0) return null;
      const others = wordsOf(textOf(best.made.get(key)));
      if ([...wordsOf(key), ...words, ...others].some((word) => told.includes(` ${word}`))) return null;
      found.push(`"${key}" of ${wanted.name}`);
    }
  }
  if (found.length === 0) return null;
  return {
    rule: "end-not-determined",
    evidence: `The wanted end differs in ${found.join(", ")} alone, about which the instruction says nothing.`,
  };
}

function textOf(value: JsonValue | undefined): string {
  return value === undefined ? "" : dumpJson(value);
}

/** Words of some length, without the ending of a plural; numbers and short words match by accident. */
function wordsOf(text: string): string[] {
  return plain(text)
    .split(" ")
    .filter((word) => /^\p{L}{4,}$/u.test(word))
    .map((word) => word.replace(/s$/, ""));
}
