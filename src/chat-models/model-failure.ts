// The failures of models behind an API, whoever they play, and what their messages may say. One place decides which can
// pass by themselves.

import { AttributedError, type Boundary } from "../core/index.ts";

/** Whom a model plays in an episode. */
export type ModelPart = "user" | "agent";

/** Whom a model plays, and how messages name the one. */
export type ModelRole = {
  readonly part: ModelPart;
  /** As in "Cannot make user "llm": ...". */
  readonly title: string;
};

export type ModelFailureCode =
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
  | "cancelled";

const retryableCodes: ReadonlySet<string> = new Set<ModelFailureCode>([
  "unreachable",
  "connection-lost",
  "timeout",
  "rate-limited",
  "server-error",
  "bad-reply",
  "empty-reply",
  "malformed-reply",
]);

/** An agent behind an API stands where the engine stands in training. */
export function boundaryOf(part: ModelPart): Boundary {
  return part === "user" ? "user" : "engine";
}

/** What could not be done: `get a line from user model "m"`. */
export function askingOf(part: ModelPart, where: string): string {
  return part === "user" ? `get a line from user model ${where}` : `get a reply from agent model ${where}`;
}

/** A fault of the model. `cause` is words, never the error below: that one may hold headers, and headers hold keys. */
export function modelFailure(
  part: ModelPart,
  code: ModelFailureCode,
  details: { readonly message: string; readonly cause?: string | null; readonly retryAfterMs?: number | null },
): AttributedError {
  const { message, cause = null, retryAfterMs = null } = details;
  return new AttributedError(
    { boundary: boundaryOf(part), code, message, retryable: retryableCodes.has(code), cause },
    { retryAfterMs },
  );
}

/** The failure for a signal that aborted, in the words of its reason. */
export function cancelledFailure(part: ModelPart, what: string, signal: AbortSignal): AttributedError {
  const reason: unknown = signal.reason;
  return modelFailure(part, "cancelled", {
    message: `Cannot ${what}: the call was cancelled.`,
    cause: reason instanceof Error ? reason.message : String(reason),
  });
}
