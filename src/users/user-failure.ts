// The failures of simulated users, and what their messages may say. One place decides which can pass by themselves.

import { AttributedError } from "../core/index.ts";

/** Codes of failures at the boundary `user`. */
export type UserFailureCode =
  | "unreachable"
  | "connection-lost"
  | "timeout"
  | "rate-limited"
  | "quota-exceeded"
  | "server-error"
  | "bad-request"
  | "unauthorized"
  | "context-length"
  /** The server's answer is no chat completion. */
  | "bad-reply"
  /** The model said nothing. */
  | "empty-reply"
  /** The model said something that its strategy cannot read. */
  | "malformed-reply"
  /** A recorded user was asked something else than when it was recorded. */
  | "replay-mismatch"
  | "cancelled";

const retryableCodes: ReadonlySet<UserFailureCode> = new Set<UserFailureCode>([
  "unreachable",
  "connection-lost",
  "timeout",
  "rate-limited",
  "server-error",
  "bad-reply",
  "empty-reply",
  "malformed-reply",
]);

/** A fault of the user. `cause` is words, never the error below: that one may hold headers, and headers hold keys. */
export function userFailure(
  code: UserFailureCode,
  message: string,
  options: { readonly cause?: string | null; readonly retryAfterMs?: number | null } = {},
): AttributedError {
  const { cause = null, retryAfterMs = null } = options;
  return new AttributedError(
    { boundary: "user", code, message, retryable: retryableCodes.has(code), cause },
    { retryAfterMs },
  );
}

/** The failure for a signal that aborted, in the words of its reason. */
export function cancelledFailure(what: string, signal: AbortSignal): AttributedError {
  const reason: unknown = signal.reason;
  return userFailure("cancelled", `Cannot ${what}: the call was cancelled.`, {
    cause: reason instanceof Error ? reason.message : String(reason),
  });
}
