// Maps refusals by an inference server to failures with a code that callers match. Decides what may
// be retried; the retries belong to the loop. Server-specific phrases are in the dialect, which
// each engine states.

import { AttributedError } from "../core/failure.ts";
import type { EngineFailureCode } from "../core/engine.ts";
import { jsonOf } from "../lib/text.ts";

/** Phrases by which one kind of server reports errors that an HTTP status does not distinguish. */
export type ServerDialect = {
  /** Product name for messages: "SGLang". */
  readonly product: string;
  /** True if the message says that prompt and completion exceed the context. */
  isContextOverflow(message: string): boolean;
  /** True if the message, which may come without a status, says that the server is overloaded. */
  isOverload(message: string): boolean;
  /** True if the message says that an earlier attempt with the same id is still running. */
  isDuplicate(message: string): boolean;
  /** True if the message says that a router has no server to forward to. */
  hasNoServer(message: string): boolean;
  /** True if the message of a 403 refusal says that the server was started without this call. */
  isDisabled(message: string): boolean;
  /** Advice for the user; `null` if only the general advice applies. */
  remedy(refusal: Refusal): string | null;
};

/** Context for failures of one server: its address, its dialect, and a redactor of secrets. */
export type FailureContext = {
  /** The attempted action, e.g. `sample from SGLang at http://127.0.0.1:30000/generate`. */
  readonly what: string;
  readonly redact: (text: string) => string;
  readonly hasApiKey: boolean;
  readonly dialect: ServerDialect;
};

export type Refusal = {
  /** HTTP status, or the status named inside an answer; `null` if the server named none. */
  readonly status: number | null;
  /** The message of the server, unchanged. */
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

/**
 * The failure for an answer that is not a turn. Retryable, because a garbled answer usually comes
 * from a single worker or proxy.
 */
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
  const value = jsonOf(body.toString());
  if (value === undefined) throw badReply(context, "it is not JSON");
  return value;
}

export function refusalFailure(context: FailureContext, refusal: Refusal): AttributedError {
  const { status, message } = refusal;
  const ruling = rule(refusal, context.dialect);
  const shown = shorten(message);
  const answered = status === null ? "with an error" : `HTTP ${status}`;
  const state = `the server answered ${answered}${shown === "" ? "" : `, ${JSON.stringify(shown)}`}`;
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
  // Treated like a lost server: calls wait until the router is ready again.
  if (dialect.hasNoServer(message)) return { code: "unreachable", retryable: true };
  if (status === 429 || status === 503 || dialect.isOverload(message)) return { code: "overloaded", retryable: true };
  if (dialect.isContextOverflow(message)) return { code: "context-length", retryable: false };
  // A router retries by itself, with the id of the attempt that is still running.
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
  if (code === "context-length") return "shorten the prompt or request fewer new tokens";
  if (status !== null && status >= 300 && status < 400) return "give the address it redirects to";
  return context.dialect.remedy(refusal);
}

function shorten(message: string): string {
  const line = message.replace(/\s+/g, " ").trim();
  return line.length <= longestMessage ? line : `${line.slice(0, longestMessage)}…`;
}

/**
 * The message in the body of a refusal, in any of its shapes: nested, flat, a string under "error",
 * or plain text. Servers, their frameworks and proxies all differ.
 */
export function serverMessage(body: string): string {
  return messageIn(jsonOf(body)) ?? body;
}

/**
 * The message in an error value, with its code if that is text too; `null` if the value has no
 * message.
 */
export function messageIn(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return null;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name of ["message", "error", "detail"]) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (typeof field === "string") return withCode(field, fields["code"]);
    if (name === "error" && typeof field === "object" && field !== null) return messageIn(field);
    if (field !== undefined && field !== null) return JSON.stringify(field);
  }
  return null;
}

/**
 * The wait that a `retry-after` header requests, in milliseconds; `null` if it requests none. A
 * date is compared with the server's own `date` header, so that the clocks need not agree.
 */
export function parseRetryAfter(value: string | null, serverDate: string | null): number | null {
  if (value === null) return null;
  const text = value.trim();
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Math.round(Number(text) * 1000);
  const wait = Date.parse(text) - Date.parse(serverDate ?? "");
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}

/** A textual code may be all that distinguishes two refusals; a numeric one only repeats the status. */
function withCode(message: string, code: unknown): string {
  return typeof code === "string" && code !== "" && !message.includes(code) ? `${message} (${code})` : message;
}

/** The failure for an error that came with HTTP 200, in a body or in a stream. */
export function errorInside(error: unknown, context: FailureContext): AttributedError {
  const { code } = Object(error) as { readonly code?: unknown };
  const status = typeof code === "number" ? code : null;
  return refusalFailure(context, { status, message: messageIn(error) ?? "", retryAfterMs: null });
}

export function codeOf(error: unknown): string | null {
  return error instanceof AttributedError ? error.failure.code : null;
}
