// A failure is a fault recorded on an episode as data. It is neither a stop reason (limits and hang-ups are normal
// endings, see `stop-reason.ts`) nor a programmer's mistake (those throw plain errors before work starts).

/** Where a fault crossed into the system. */
export type Boundary =
  | "engine"
  | "renderer"
  | "parser"
  | "tool"
  | "environment"
  | "user"
  | "grader"
  | "gateway"
  | "queue"
  | "store";

/** A recorded fault. `code` is stable and is what callers match; `message` is for people. */
export type Failure = {
  readonly boundary: Boundary;
  readonly code: string;
  readonly message: string;
  /** Decided where the status is known. */
  readonly retryable: boolean;
  /** The fault below this one, in words; `null` when there is none. */
  readonly cause: string | null;
};

/** An error that already knows its boundary; it passes every later boundary unchanged. */
export class AttributedError extends Error {
  readonly failure: Failure;
  /** What the server asked us to wait before the next attempt, in milliseconds; `null` when it did not say. */
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

/** Attributes whatever escaped from extension code; an attributed error passes unchanged. */
export function attribute(error: unknown, boundary: Boundary, code = "unexpected"): AttributedError {
  if (error instanceof AttributedError) return error;
  const message = error instanceof Error ? error.message : String(error);
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause.message : null;
  return new AttributedError({ boundary, code, message, retryable: false, cause }, { cause: error });
}
