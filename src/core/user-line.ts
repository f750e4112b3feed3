// One line of a simulated user, with its cost. The users are in `user.ts`; consequences of a line,
// in a world in which users also act, are in `environment.ts`.

import type { JsonObject } from "../python-semantics/json/value.ts";

/** Cost of calls of a model behind an API: a simulated user, an evaluated agent or a judge. */
export type ModelUsage = {
  /** Model calls made, retries and checks included; 0 where no model was called. */
  readonly modelCalls: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Cost in US dollars; `null` when the price is not known. */
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
  /** Id of this call in its conversation; its result has the same id. */
  readonly id: string;
  readonly name: string;
  readonly arguments: JsonObject;
};

/**
 * A line of the simulated user. A hang-up may carry a last utterance; the policy never answers it.
 * "calls": the user acts and its text is not read; only where the environment gives users tools
 * (`Environment.userSide`).
 */
export type UserLine = {
  readonly type: "utterance" | "hang-up" | "calls";
  readonly text: string;
  /** Usage of this line, retries and checks included. */
  readonly usage: ModelUsage;
  /** Calls of the line; at least one exactly where the type is "calls". @default none */
  readonly calls?: readonly UserCall[];
};
