// What a simulated user says or does, and what it costs. Who plays it is in `user.ts`; what comes of it, in a world in which users
// act, too, in `environment.ts`.

import type { JsonObject } from "../python-semantics/json/value.ts";

/** What calls of a model behind an API cost: of simulated users, of evaluated agents. */
export type ModelUsage = {
  /** Model calls made, retries and checks included; 0 where no model was called. */
  readonly modelCalls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** In US dollars; `null` when the price is not known. */
  readonly cost: number | null;
};

/** No calls, no cost. */
export const freeUsage: ModelUsage = Object.freeze({ modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 });

/** One unknown price makes the sum unknown. */
export function addUsage(left: ModelUsage, right: ModelUsage): ModelUsage {
  return {
    modelCalls: left.modelCalls + right.modelCalls,
    inputTokens: left.inputTokens + right.inputTokens,
    outputTokens: left.outputTokens + right.outputTokens,
    cost: left.cost === null || right.cost === null ? null : left.cost + right.cost,
  };
}

/** A call that a user makes with tools of its own. */
export type UserCall = {
  /** Of this call in its conversation; its result comes back under it. */
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
};

/**
 * A line of the simulated user. A hang-up may carry a last utterance; the policy never answers it. "calls": it acts, and nobody
 * reads its text; only where the environment gives users tools (`Environment.userSide`).
 */
export type UserLine = {
  readonly type: "words" | "hang-up" | "calls";
  readonly text: string;
  /** Of this line, retries and checks included. */
  readonly usage: ModelUsage;
  /** At least one exactly where the type is "calls". @default none */
  readonly calls?: readonly UserCall[];
};
