// What all user simulators share: lines come from one function and in one order of calls, the sign that ends a conversation,
// resuming by saying the same again, and the failures of models that play users and of recorded users.

import {
  cancelledFailure as cancelled,
  modelFailure,
  type ModelFailureCode,
  splitThinking,
} from "../chat-models/index.ts";
import { AttributedError, type ModelUsage, type SpokenLine, type UserLine, type UserSimulator } from "../core/index.ts";

export const stopMarker = "###STOP###";

/** A line, or a hang-up when the text holds the stop marker. The text stays as it is. */
export function lineFrom(text: string, usage: ModelUsage): UserLine {
  return { type: text.includes(stopMarker) ? "hang-up" : "words", text, usage };
}

/** The answer to the agent's utterance; `heard` is `null` for the first line, and only then there may be an `opening`. */
export type Answer = (
  heard: string | null,
  signal: AbortSignal | undefined,
  opening: string | null,
) => Promise<UserLine>;

/** A user whose lines come from one function. */
export function userFrom(answer: Answer): UserSimulator {
  return {
    open: (options) => answer(null, options?.signal, options?.opening ?? null),
    reply: (utterance, options) => answer(utterance, options?.signal, null),
  };
}

export function askUser(
  user: UserSimulator,
  ...[heard, signal, opening]: Partial<Parameters<Answer>>
): Promise<UserLine> {
  const options = signal === undefined ? {} : { signal };
  if (typeof heard === "string") return user.reply(heard, options);
  return user.open(opening === undefined ? options : { ...options, opening });
}

/**
 * A user that is called in the order that every user promises: `open` once and first, one call at a time, nothing after a
 * hang-up or a fault (what it remembers may be half written). A call out of order is a mistake of the caller and throws a
 * plain error. `state`: "open" for a user that resumes a conversation.
 */
export function orderedUser(name: string, answer: Answer, state: "new" | "open" = "new"): UserSimulator {
  let current: "new" | "answering" | "open" | "hung up" | "failed" = state;
  return userFrom(async (heard, signal, opening) => {
    const [call, expected] = heard === null ? ["open", "new"] : ["reply", "open"];
    if (current !== expected) {
      throw new Error(
        `Cannot call ${call}() of user "${name}": its conversation is "${current}", "${expected}" is expected; ` +
          "open() comes once and first, one call at a time, and each episode has a user of its own.",
      );
    }
    current = "answering";
    try {
      const line = await answer(heard, signal, opening);
      current = line.type === "hang-up" ? "hung up" : "open";
      return line;
    } catch (error) {
      current = "failed";
      throw error;
    }
  });
}

/**
 * `user`, which has not begun, in the middle of a conversation. It is led there at the first call; a line that is not the
 * one it has said fails with code "replay-mismatch".
 */
export function rehearsedUser(user: UserSimulator, spoken: readonly SpokenLine[]): UserSimulator {
  let rehearsal: Promise<void> | null = null;
  const rehearse = async (): Promise<void> => {
    for (const [index, { heard, line }] of spoken.entries()) {
      const again = await askUser(user, heard);
      if (again.type === line.type && again.text === line.text) continue;
      throw userFailure(
        "replay-mismatch",
        `Cannot resume the conversation of the user: line ${index} is ${JSON.stringify(again.text)}, it has said ` +
          `${JSON.stringify(line.text)}; the task, the seed and the user must be those that it began with.`,
      );
    }
  };
  return userFrom(async (heard, signal, opening) => {
    // A user that has spoken has opened; the user itself says what is wrong with a second opening.
    if (heard !== null) await (rehearsal ??= rehearse());
    return askUser(user, heard, signal, opening);
  });
}

/** The text, trimmed, without a thinking block at the start. Throws the failure "empty-reply" when nothing is left. */
export function readUtterance(reply: string): string {
  const text = splitThinking(reply).content.trim();
  if (text === "") throw emptyReply(reply);
  return text;
}

/** The reply as it is. Throws the failure "empty-reply" when there is nothing to see in it. */
export function readRaw(reply: string): string {
  if (reply.trim() === "") throw emptyReply(reply);
  return reply;
}

const emptyReply = (reply: string) =>
  userFailure(
    "empty-reply",
    "Cannot take the user model's reply as a line: it is empty, text is expected; allow it more tokens, or choose another model.",
    reply === "" ? null : JSON.stringify(reply.slice(0, 300)),
  );

/** Codes of failures at the boundary `user`. */
export type UserFailureCode =
  | ModelFailureCode
  /** A recorded user was sent something else than when it was recorded. */
  | "replay-mismatch";

/** A fault of the user. `cause` is text, never the error below: that one may hold headers, and headers hold keys. */
export function userFailure(code: UserFailureCode, message: string, cause: string | null = null): AttributedError {
  if (code !== "replay-mismatch") return modelFailure("user", code, { message, cause });
  return new AttributedError({ boundary: "user", code, message, retryable: false, cause });
}

/** The failure for a signal that aborted, with the message of its reason. */
export function cancelledFailure(what: string, signal: AbortSignal): AttributedError {
  return cancelled("user", what, signal);
}
