// The failures of simulated users: those of the models that play them, and those of recorded ones.

import { cancelledFailure as cancelled, modelFailure, type ModelFailureCode } from "../chat-models/index.ts";
import type { AttributedError } from "../core/index.ts";
import { replayMismatch } from "./replay-mismatch.ts";

/** Codes of failures at the boundary `user`. */
export type UserFailureCode =
  | ModelFailureCode
  /** A recorded user was asked something else than when it was recorded. */
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
