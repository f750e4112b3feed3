// A failure is a fault recorded on an episode as data. It is neither a stop reason (limits and hang-ups are normal
// endings, `StopReason` below) nor a programmer's mistake (those throw plain errors before work starts).

/** Boundaries at which a fault can enter the system. */
export const boundaries = [
  "engine",
  "renderer",
  "parser",
  "tool",
  "environment",
  "user",
  "grader",
  "gateway",
  "queue",
  "store",
] as const;

export type Boundary = (typeof boundaries)[number];

/** A recorded fault. `code` is stable and is what callers match; `message` is for people. */
export type Failure = {
  readonly boundary: Boundary;
  readonly code: string;
  readonly message: string;
  /** Decided where the error's status is known. */
  readonly retryable: boolean;
  /** The underlying fault, as text; `null` when there is none. */
  readonly cause: string | null;
};

/** A failed attempt of an engine or model call, recorded with its turn. */
export type Attempt = { readonly failure: Failure; readonly waitedMs: number };

/** An error that already knows its boundary; it passes every later boundary unchanged. */
export class AttributedError extends Error {
  readonly failure: Failure;
  /**
   * Delay that the server requested before the next attempt, in milliseconds; `null` when it
   * requested none.
   */
  readonly retryAfterMs: number | null;

  constructor(failure: Failure, options?: { readonly cause?: unknown; readonly retryAfterMs?: number | null }) {
    super(failure.message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.name = "AttributedError";
    this.failure = failure;
    this.retryAfterMs = options?.retryAfterMs ?? null;
  }
}

/** A setting, flag, file or folder that the user can correct. Thrown before work starts; the command line exits with 2. */
export class ConfigurationError extends Error {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "ConfigurationError";
  }
}

/** Longer messages are cut, because they go into files and logs. */
const longestMessage = 10_000;

/**
 * The message of any thrown value: third-party code throws `null`, objects, and errors whose
 * message is not a string or cannot be read. Never throws.
 */
export function messageOf(error: unknown): string {
  try {
    const isRecord = typeof error === "object" && error !== null;
    const message: unknown = isRecord && "message" in error ? error.message : error;
    const text = isRecord && message === "" && "name" in error ? error.name : message;
    const shown = String(text) || "an error without a message";
    return shown.length > longestMessage ? `${shown.slice(0, longestMessage)} [cut]` : shown;
  } catch {
    return "an error that cannot be shown";
  }
}

/**
 * Attributes any value thrown by extension code; an attributed error passes unchanged. Never
 * throws.
 */
export function attribute(error: unknown, boundary: Boundary, code = "unexpected"): AttributedError {
  let cause: string | null = null;
  try {
    if (error instanceof AttributedError) return error;
    if (error instanceof Error && error.cause instanceof Error) cause = messageOf(error.cause);
  } catch {
    // An object whose properties cannot be read has no cause.
  }
  return new AttributedError({ boundary, code, message: messageOf(error), retryable: false, cause }, { cause: error });
}

/** An attributed fault, by default not retryable. `cause` is the underlying error. */
export function faultAt(
  boundary: Boundary,
  code: string,
  message: string,
  { retryable = false, cause }: { readonly retryable?: boolean; readonly cause?: unknown } = {},
): AttributedError {
  return new AttributedError({ boundary, code, message, retryable, cause: null }, { cause });
}

/**
 * Reasons for the end of an episode. Values are snake_case because run files and trainers read
 * them.
 */
export const stopReasons = [
  "tool_ended",
  "user_hung_up",
  /** The program that runs the episode through the gateway ended it. */
  "session_ended",
  "max_turns",
  "max_tokens",
  "context_length",
  /** A format error whose policy is to end the episode, graded. */
  "bad_action",
  /** The same, not graded, as in the upstream program. */
  "bad_action_aborted",
  "engine_abort",
  "cancelled",
  "fault",
] as const;

export type StopReason = (typeof stopReasons)[number];

/** completed: ended by tool or user. truncated: a limit. aborted: we, or a weight update, cancelled it. failed: a fault. */
export const outcomes = ["completed", "truncated", "aborted", "failed"] as const;

export type Outcome = (typeof outcomes)[number];

/** The outcome follows from the stop reason, never the other way round. */
export function outcomeOf(stop: StopReason): Outcome {
  switch (stop) {
    case "tool_ended":
    case "user_hung_up":
    case "session_ended":
    case "bad_action":
      return "completed";
    case "max_turns":
    case "max_tokens":
    case "context_length":
      return "truncated";
    case "engine_abort":
    case "bad_action_aborted":
    case "cancelled":
      return "aborted";
    case "fault":
      return "failed";
    default:
      return stop satisfies never;
  }
}
