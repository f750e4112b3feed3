// The simulated user as a contract. Its lines are never trained; what they cost is counted. Implementations: `users/`.

import type { Task } from "./environment.ts";

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

/** A line of the simulated user. A hang-up may carry a last utterance; the policy never answers it. */
export type UserLine = {
  readonly type: "words" | "hang-up";
  readonly text: string;
  /** Of this line, retries and checks included. */
  readonly usage: ModelUsage;
};

/**
 * Plays the counterpart of the agent in one episode; its tokens are never trained.
 *
 * Guarantees: asynchronous, never blocks another episode; faults reject, attributed to boundary "user". Single use;
 * calls arrive one at a time, `open` first.
 */
export interface UserSimulator {
  /** The first utterance. `opening`: the text that the environment itself begins with, for users that only pass it on. */
  open(options?: { readonly signal?: AbortSignal; readonly opening?: string | null }): Promise<UserLine>;
  /** The answer to the agent's utterance. */
  reply(utterance: string, options?: { readonly signal?: AbortSignal }): Promise<UserLine>;
}

/** A line of the user, and the utterance of the agent that it answered; `null` for the first line. */
export type SpokenLine = { readonly heard: string | null; readonly line: UserLine };

/** Makes the user of an episode. Throws a `ConfigurationError` when it cannot take the task, naming the users that can. */
export interface UserSource {
  readonly name: string;
  create(task: Task, options: { readonly seed: number }): UserSimulator;
  /**
   * A user in the middle of a conversation whose process died: it has said `spoken` (at least one line, the last no
   * hang-up), never says those again, and answers the agent's next utterance. Absent: its users cannot resume.
   */
  resume?(task: Task, options: { readonly seed: number; readonly spoken: readonly SpokenLine[] }): UserSimulator;
}
