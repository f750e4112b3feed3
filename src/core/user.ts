// The simulated user as a contract. Its lines are never trained; what they cost is counted. Implementations: `users/`.

import type { ModelUsage } from "./model-usage.ts";
import type { Task } from "./task.ts";

/** A line of the simulated user. A hang-up may carry last words; the policy never answers them. */
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
  /** The first words. */
  open(options?: { readonly signal?: AbortSignal }): Promise<UserLine>;
  /** The answer to the agent's words. */
  reply(words: string, options?: { readonly signal?: AbortSignal }): Promise<UserLine>;
}

/** A line that a user has said, and the words of the agent that it answered; `null` for the first words. */
export type SpokenLine = { readonly heard: string | null; readonly line: UserLine };

/** Makes the user of an episode. Throws a `ConfigurationError` when it cannot play the task, naming the users that can. */
export interface UserSource {
  readonly name: string;
  create(task: Task, options: { readonly seed: number }): UserSimulator;
  /**
   * A user in the middle of a conversation whose process died: it has said `spoken` (at least one line, the last no
   * hang-up), is never asked for those again, and answers the agent's next words. Absent: its users cannot go on.
   */
  resume?(task: Task, options: { readonly seed: number; readonly spoken: readonly SpokenLine[] }): UserSimulator;
}
