// The failures of simulated users: those of the models that play them, and those of recorded ones.

import {
  cancelledFailure as cancelled,
  modelFailure,
  type ModelFailureCode,
  splitThinking,
} from "../chat-models/index.ts";
import type { AttributedError } from "../core/index.ts";
import { replayMismatch } from "./call-order.ts";

/** The words, trimmed, without a thinking block at the start. Throws the failure "empty-reply" when nothing is left. */
export function readUtterance(reply: string): string {
  const words = splitThinking(reply).words.trim();
  if (words === "") throw emptyReply(reply);
  return words;
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
    { cause: reply === "" ? null : JSON.stringify(reply.slice(0, 300)) },
  );

/** Codes of failures at the boundary `user`. */
export type UserFailureCode =
  | ModelFailureCode
  /** A recorded user was sent something else than when it was recorded. */
  | "replay-mismatch";

/** A fault of the user. `cause` is words, never the error below: that one may hold headers, and headers hold keys. */
export function userFailure(
  code: UserFailureCode,
  message: string,
  options: { readonly cause?: string | null } = {},
): AttributedError {
  if (code !== "replay-mismatch") return modelFailure("user", code, { message, ...options });
  return replayMismatch(message, options.cause);
}

/** The failure for a signal that aborted, in the words of its reason. */
export function cancelledFailure(what: string, signal: AbortSignal): AttributedError {
  return cancelled("user", what, signal);
}
