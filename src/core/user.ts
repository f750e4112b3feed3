// The simulated user as a contract. Its lines are never trained; their cost is counted.
// Implementations: `users/`.

import type { Task, ToolResult, UserSide } from "./environment.ts";
import type { UserLine } from "./user-line.ts";

export { addUsage, freeUsage, type ModelUsage, type UserCall, type UserLine } from "./user-line.ts";

/**
 * Simulates the agent's counterpart in one episode; its tokens are never trained.
 *
 * Guarantees: asynchronous, never blocks another episode; faults reject, attributed to boundary
 * "user". Single use; calls arrive one at a time, `open` first.
 */
export interface UserSimulator {
  /**
   * The first line. `opening`: text that the environment itself begins with, for users that only
   * pass it on.
   */
  open(options?: UserCallOptions & { readonly opening?: string | null }): Promise<UserLine>;
  /** The answer to the agent's utterance. */
  reply(utterance: string, options?: UserCallOptions): Promise<UserLine>;
  /**
   * The user's next line after its calls were carried out, given their results in order. Required
   * of users whose lines are calls.
   */
  observe?(results: readonly ToolResult[], options?: UserCallOptions): Promise<UserLine>;
}

/** Options of a call of a user. */
export type UserCallOptions = {
  readonly signal?: AbortSignal;
  /**
   * Actions that the environment offers to the user besides talking; a user that cannot act ignores
   * them. The same in every call.
   */
  readonly side?: UserSide | null;
};

/**
 * A line of the user, with the agent's utterance that it answered; `null` for the first line, and
 * after calls.
 */
export type PastLine = {
  readonly utterance: string | null;
  readonly line: UserLine;
  /** Results of its calls before this line. @default it follows no calls */
  readonly results?: readonly ToolResult[];
};

/** Makes the user of an episode. Throws a `ConfigurationError` when it cannot take the task, naming the users that can. */
export interface UserSource {
  readonly name: string;
  create(task: Task, options: { readonly seed: number }): UserSimulator;
  /**
   * Creates a user in the middle of a conversation whose process died: it has already said `lines`
   * (at least one line, the last not a hang-up), never repeats those lines, and answers the agent's
   * next utterance. Absent if its users cannot resume.
   */
  resume?(task: Task, options: { readonly seed: number; readonly lines: readonly PastLine[] }): UserSimulator;
}
