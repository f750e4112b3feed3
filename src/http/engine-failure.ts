// What a refusal by an inference server means: one failure whose code callers match. Decides what may be tried again; the
// trying is the loop's. The words by which a server says things are its dialect, stated by the engine of that server.

import { AttributedError } from "../core/failure.ts";
import type { EngineFailureCode } from "../core/engine.ts";

/** How one kind of server words what its status does not say. */
export type ServerDialect = {
  /** For messages: "SGLang". */
  readonly product: string;
  /** Whether the answer says that prompt and completion do not fit. */
  isContextOverflow(words: string): boolean;
  /** Whether the words, which may come without a status, say that the server has too much to do. */
  isOverload(words: string): boolean;
  /** Whether the words say that an earlier try with the same id still runs. */
  isDuplicate(words: string): boolean;
  /** Whether the words of a refusal say that a router has no server behind it that could answer. */
  hasNoServer(words: string): boolean;
  /** Whether the words of a refusal with 403 say that the server was started without the call, whoever asks. */
  isDisabled(words: string): boolean;
  /** What the user may do; `null` when the general remedies are all there is. */
  remedy(refusal: Refusal): string | null;
};

/** Adds context to failures of one server: where it is, how it speaks, and what must not be shown. */
export type FailureContext = {
  /** What was attempted, `sample from SGLang at http://127.0.0.1:30000/generate`. */
  readonly what: string;
  readonly redact: (text: string) => string;
  readonly hasApiKey: boolean;
  readonly dialect: ServerDialect;
};

export type Refusal = {
  /** HTTP status, or the status named inside an answer; `null` when the server named none. */
  readonly status: number | null;
  /** The server's own words. */
  readonly message: string;
  readonly retryAfterMs: number | null;
};

type Ruling = { readonly code: EngineFailureCode; readonly retryable: boolean };

const longestMessage = 500;

export function engineFailure(
  context: FailureContext,
  failure: {
    readonly code: EngineFailureCode;
    readonly retryable: boolean;
    readonly state: string;
    readonly remedy?: string | null;
    readonly retryAfterMs?: number | null;
    readonly cause?: unknown;
  },
): AttributedError {
  const remedy = failure.remedy ? `; ${failure.remedy}` : "";
  const message = context.redact(`Cannot ${context.what}: ${failure.state}${remedy}.`);
  const cause = failure.cause instanceof Error ? context.redact(failure.cause.message) : null;
  return new AttributedError(
    { boundary: "engine", code: failure.code, message, retryable: failure.retryable, cause },
    { retryAfterMs: failure.retryAfterMs ?? null },
  );
}

/** An answer that cannot be taken for a turn. Worth another try: a garbled answer is mostly one worker's or one proxy's. */
export function badReply(
  context: FailureContext,
  state: string,
  options: { readonly retryable?: boolean; readonly remedy?: string } = {},
): AttributedError {
  return engineFailure(context, {
    code: "bad-reply",
    retryable: options.retryable ?? true,
    state: `the reply cannot be used: ${state}`,
    remedy: options.remedy ?? null,
  });
}

/** Throws an `AttributedError` with code "bad-reply". */
export function parseJson(body: Buffer | string, context: FailureContext): unknown {
  try {
    return JSON.parse(body.toString()) as unknown;
  } catch {
    throw badReply(context, "it is not JSON");
  }
}

export function refusalFailure(context: FailureContext, refusal: Refusal): AttributedError {
  const { status, message } = refusal;
  const ruling = rule(refusal, context.dialect);
  const words = shorten(message);
  const state = `the server answered ${status === null ? "with an error" : `HTTP ${status}`}${words === "" ? "" : `, ${JSON.stringify(words)}`}`;
  return engineFailure(context, {
    ...ruling,
    state,
    remedy: remedyOf(ruling.code, refusal, context),
    retryAfterMs: refusal.retryAfterMs,
  });
}

function rule(refusal: Refusal, dialect: ServerDialect): Ruling {
  const { status, message } = refusal;
  if (status === 403 && dialect.isDisabled(message)) return { code: "bad-request", retryable: false };
  if (status === 401 || status === 403) return { code: "unauthorized", retryable: false };
  // As a server that is gone: calls wait until the router is ready again.
  if (dialect.hasNoServer(message)) return { code: "unreachable", retryable: true };
  if (status === 429 || status === 503 || dialect.isOverload(message)) return { code: "overloaded", retryable: true };
  if (dialect.isContextOverflow(message)) return { code: "context-length", retryable: false };
  // A router tries again by itself, with the id of the try that still runs.
  if (dialect.isDuplicate(message)) return { code: "server-error", retryable: true };
  if (status === 408 || status === 504) return { code: "timeout", retryable: true };
  if (status === null) return { code: "bad-request", retryable: false };
  if (status >= 500) return { code: "server-error", retryable: true };
  if (status >= 400) return { code: "bad-request", retryable: false };
  return { code: "bad-reply", retryable: false };
}

function remedyOf(code: EngineFailureCode, refusal: Refusal, context: FailureContext): string | null {
  const { status } = refusal;
  if (code === "unauthorized") return context.hasApiKey ? "check the API key" : "give the server's API key";
  if (code === "context-length") return "shorten the prompt or ask for fewer new tokens";
  if (status !== null && status >= 300 && status < 400) return "give the address it redirects to";
  return context.dialect.remedy(refusal);
}

function shorten(message: string): string {
  const line = message.replace(/\s+/g, " ").trim();
  return line.length <= longestMessage ? line : `${line.slice(0, longestMessage)}…`;
}
