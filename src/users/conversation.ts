// Parts that all user simulators share: a user made from one function, the order of calls, the
// marker that ends a conversation, resuming by repeating the same lines, and the failures of
// simulated and of recorded users.

import { cancelledFailure as cancelled, modelFailure, type ModelFailureCode } from "../chat-models/model-failure.ts";
import {
  AttributedError,
  type ModelUsage,
  type PastLine,
  type ToolResult,
  type UserLine,
  type UserSide,
  type UserSimulator,
} from "../core/index.ts";
import { isSameValue } from "../python-semantics/json/value.ts";

export const stopMarker = "###STOP###";

/** A line with this unchanged text, or a hang-up if the text contains the stop marker. */
export function lineFrom(text: string, usage: ModelUsage): UserLine {
  return { type: text.includes(stopMarker) ? "hang-up" : "utterance", text, usage };
}

/**
 * Input that a line answers: an utterance of the agent, or the results of the user's own calls;
 * `null` for the first line.
 */
export type HeardByUser = string | readonly ToolResult[] | null;

/** Context of a line: the environment's opening, only for the first line, and the user's side. */
export type Surroundings = { readonly opening: string | null; readonly side: UserSide | null };

/** Function that returns the next line. */
export type Answer = (heard: HeardByUser, signal: AbortSignal | undefined, where: Surroundings) => Promise<UserLine>;

/** The utterance that a user without tools answers; it is never shown anything else. */
export function utteranceIn(heard: HeardByUser): string | null {
  if (heard === null || typeof heard === "string") return heard;
  throw new TypeError("Cannot show tool results to a user that makes no calls.");
}

/** A user whose lines come from one function. */
export function userFrom(answer: Answer): UserSimulator {
  return {
    open: ({ signal, opening = null, side = null } = {}) => answer(null, signal, { opening, side }),
    reply: (utterance, { signal, side = null } = {}) => answer(utterance, signal, { opening: null, side }),
    observe: (results, { signal, side = null } = {}) => answer(results, signal, { opening: null, side }),
  };
}

export function askUser(
  user: UserSimulator,
  ...[heard, signal, where]: Partial<Parameters<Answer>>
): Promise<UserLine> {
  const options = { ...(signal === undefined ? {} : { signal }), ...(where === undefined ? {} : { side: where.side }) };
  if (typeof heard === "string") return user.reply(heard, options);
  if (heard === null || heard === undefined) return user.open({ ...options, ...where });
  if (user.observe !== undefined) return user.observe(heard, options);
  return Promise.reject(new TypeError("Cannot show a user the results of its calls: it has no observe()."));
}

/**
 * A user that enforces the order of calls that every user promises: `open` once and first, one call
 * at a time, nothing after a hang-up or a fault (its state may be incomplete). A call out of order
 * is a mistake of the caller and throws a plain error. `state`: "open" for a user that resumes a
 * conversation.
 */
export function orderedUser(name: string, answer: Answer, state: "new" | "open" = "new"): UserSimulator {
  let current: "new" | "answering" | "open" | "hung up" | "failed" = state;
  return userFrom(async (heard, signal, where) => {
    const [call, expected] =
      heard === null ? ["open", "new"] : [typeof heard === "string" ? "reply" : "observe", "open"];
    if (current !== expected) {
      throw new Error(
        `Cannot call ${call}() of user "${name}": its conversation is "${current}", expected "${expected}"; ` +
          "open() comes once and first, one call at a time, and each episode has a user of its own.",
      );
    }
    current = "answering";
    try {
      const line = await answer(heard, signal, where);
      current = line.type === "hang-up" ? "hung up" : "open";
      return line;
    } catch (error) {
      current = "failed";
      throw error;
    }
  });
}

/**
 * Brings `user`, which has not begun, to the middle of a conversation at the first call; a line
 * that differs from the spoken one fails with code "replay-mismatch".
 */
export function rehearsedUser(user: UserSimulator, spoken: readonly PastLine[]): UserSimulator {
  let rehearsal: Promise<void> | null = null;
  const rehearse = async (where: Surroundings): Promise<void> => {
    for (const [index, { utterance: heard, line, results }] of spoken.entries()) {
      const again = await askUser(user, results ?? heard, undefined, where);
      if (again.type === line.type && again.text === line.text && isSameValue(again.calls, line.calls)) continue;
      throw userFailure(
        "replay-mismatch",
        `Cannot resume the conversation of the user: line ${index} is now ${JSON.stringify(again.text)}, but it was ` +
          `${JSON.stringify(line.text)}; the task, the seed and the user must be those that it began with.`,
      );
    }
  };
  return userFrom(async (heard, signal, where) => {
    // A user that has spoken is already open; a second opening is reported by the user itself.
    if (heard !== null) await (rehearsal ??= rehearse(where));
    return askUser(user, heard, signal, where);
  });
}

/** Codes of failures at the boundary `user`. */
export type UserFailureCode =
  | ModelFailureCode
  /** A recorded user received another message than in the recording. */
  | "replay-mismatch"
  /** The user ended the conversation before the agent had spoken. */
  | "early-hang-up";

/**
 * A fault of the user. `cause` is text, never the underlying error, which may contain headers with
 * keys.
 */
export function userFailure(code: UserFailureCode, message: string, cause: string | null = null): AttributedError {
  if (code === "replay-mismatch" || code === "early-hang-up") {
    return new AttributedError({ boundary: "user", code, message, retryable: code === "early-hang-up", cause });
  }
  return modelFailure("user", code, { message, cause });
}

/** The failure for a signal that aborted, with the message of its reason. */
export function cancelledFailure(what: string, signal: AbortSignal): AttributedError {
  return cancelled("user", what, signal);
}
