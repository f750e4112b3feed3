// What a refusal by the server means: every error shape SGLang and its router answer with, read into one failure whose
// code callers match. Decides what may be tried again; the trying is the loop's.

import { AttributedError } from "../../core/failure.ts";
import type { EngineFailureCode } from "../../core/engine.ts";

/** Adds context to failures of one server: where it is, and what must not be shown. */
export type FailureContext = {
  /** What was attempted, `sample from SGLang at http://127.0.0.1:30000/generate`. */
  readonly what: string;
  readonly redact: (text: string) => string;
  readonly hasApiKey: boolean;
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
export function parseJson(body: Buffer, context: FailureContext): unknown {
  try {
    return JSON.parse(body.toString()) as unknown;
  } catch {
    throw badReply(context, "it is not JSON");
  }
}

export function refusalFailure(context: FailureContext, refusal: Refusal): AttributedError {
  const { status, message } = refusal;
  const ruling = rule(status, message);
  const words = shorten(message);
  const state = `the server answered ${status === null ? "with an error" : `HTTP ${status}`}${words === "" ? "" : `, ${JSON.stringify(words)}`}`;
  return engineFailure(context, {
    ...ruling,
    state,
    remedy: remedyOf(ruling.code, status, message, context.hasApiKey),
    retryAfterMs: refusal.retryAfterMs,
  });
}

/** True for the texts by which SGLang says that prompt and completion do not fit. */
export function isContextOverflow(message: string): boolean {
  return /context length|maximum allowed length/i.test(message);
}

function rule(status: number | null, message: string): Ruling {
  if (status === 401 || status === 403) return { code: "unauthorized", retryable: false };
  if (status === 429 || status === 503 || isOverload(message)) return { code: "overloaded", retryable: true };
  if (isContextOverflow(message)) return { code: "context-length", retryable: false };
  // A router tries again by itself, with the id of the try that still runs.
  if (/duplicate request id/i.test(message)) return { code: "server-error", retryable: true };
  if (status === 408 || status === 504) return { code: "timeout", retryable: true };
  if (status === null) return { code: "bad-request", retryable: false };
  if (status >= 500) return { code: "server-error", retryable: true };
  if (status >= 400) return { code: "bad-request", retryable: false };
  return { code: "bad-reply", retryable: false };
}

// Inside an open stream these come without a status.
function isOverload(message: string): boolean {
  return /^(The request queue is full|Request (waiting|running) timeout reached|The request is aborted by a higher priority)/.test(
    message,
  );
}

function remedyOf(code: EngineFailureCode, status: number | null, message: string, hasApiKey: boolean): string | null {
  if (code === "unauthorized") return hasApiKey ? "check the API key" : "give the server's API key";
  if (code === "context-length") return "shorten the prompt or ask for fewer new tokens";
  if (status === 404) return "check that the address is an SGLang server or router";
  if (status !== null && status >= 300 && status < 400) return "give the address it redirects to";
  if (status === 500 && message.trim() === "Internal Server Error") {
    return "an unknown name in sampling.extra has this effect, and the server's log says more";
  }
  return null;
}

/** The server's words in a body of any of its shapes: nested, flat, a string under "error", or plain text. */
export function serverMessage(body: string): string {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return body;
  }
  return messageIn(value) ?? body;
}

/** The words in an error value; `null` when there are none. */
export function messageIn(value: unknown): string | null {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null) return null;
  const fields = value as Readonly<Record<string, unknown>>;
  for (const name of ["message", "error", "detail"]) {
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (typeof field === "string") return field;
    if (name === "error" && typeof field === "object" && field !== null) return messageIn(field);
    if (field !== undefined && field !== null) return JSON.stringify(field);
  }
  return null;
}

/**
 * The wait that a `retry-after` header asks for, in milliseconds; `null` when it asks for none. A date is measured from the
 * server's own `date` header, so that two clocks need not agree.
 */
export function parseRetryAfter(value: string | null, serverDate: string | null): number | null {
  if (value === null) return null;
  const text = value.trim();
  if (/^\d{1,9}(\.\d+)?$/.test(text)) return Math.round(Number(text) * 1000);
  const wait = Date.parse(text) - Date.parse(serverDate ?? "");
  return Number.isNaN(wait) ? null : Math.max(0, wait);
}

function shorten(message: string): string {
  const line = message.replace(/\s+/g, " ").trim();
  return line.length <= longestMessage ? line : `${line.slice(0, longestMessage)}…`;
}
