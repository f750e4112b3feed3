// What is known about a task beside its conversation: what the user was told, what end was wanted. Values of core types, so
// that a grader knows no benchmark; who has less knowledge leaves more out, and fewer rules apply.

import type { EnvironmentCall, Tool } from "../core/index.ts";

/** Something the user was told and the agent may ask for. */
export type KnownFact = {
  /** As people ask for it, in lower case: "user id". */
  readonly name: string;
  readonly value: string;
};

export type TaskFacts = {
  /** What the simulated user was told; `null`: not in words. */
  readonly instruction: string | null;
  readonly tools: readonly Tool[];
  /** Calls that lead to the wanted end; `null`: not known. */
  readonly wantedCalls: readonly EnvironmentCall[] | null;
  /** Whether those calls earn the reward when they are played; `null`: not tried. */
  readonly isReachable: boolean | null;
  /** Beside those that can be read off the wanted calls. */
  readonly knownFacts: readonly KnownFact[];
};

/** Every fact that the instruction holds: the named ones, and texts of wanted calls that look like an identifier. */
export function toldFacts({ instruction, wantedCalls, knownFacts }: TaskFacts): readonly KnownFact[] {
  if (instruction === null) return [];
  const facts = new Map<string, KnownFact>();
  const add = (fact: KnownFact): void => {
    if (instruction.includes(fact.value)) facts.set(fact.value, fact);
  };
  for (const { arguments: values } of wantedCalls ?? []) {
    for (const [key, value] of values) {
      if (typeof value !== "string" || !/^\S*\d\S*$|@/.test(value) || value.length < 5) continue;
      add({ name: plain(key), value });
    }
  }
  for (const fact of knownFacts) add(fact);
  return [...facts.values()];
}

/** Lower case, with single spaces for everything between words. */
export function plain(text: string): string {
  return text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}
