// The failures of models behind an API, as simulated users, agents or judges: the code for an HTTP
// status, whether it is retryable, the time to wait, and the permitted content of messages.

import { AttributedError, type Boundary } from "../core/index.ts";

/** The role of a model in an episode. */
export type ModelPart = "user" | "agent" | "judge";

/** The role of a model, and its name in messages. */
export type ModelRole = {
  readonly part: ModelPart;
  /** Name for messages, as in "Cannot create user "llm": ...". */
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
  /** The server's answer is not a chat completion. */
  | "bad-reply"
  /** The reply of the model is empty. */
  | "empty-reply"
  /** The strategy that uses the model cannot parse its reply. */
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

/** An agent behind an API takes the place of the engine in training. */
export function boundaryOf(part: ModelPart): Boundary {
  return ({ user: "user", agent: "engine", judge: "grader" } as const)[part];
}

const replies: Readonly<Record<ModelPart, string>> = { user: "a line", agent: "a reply", judge: "a verdict" };

/** The failed action for messages: `get a line from user model "m"`. */
export function askingOf(part: ModelPart, where: string): string {
  return `get ${replies[part]} from ${part} model ${where}`;
}

/**
 * A failure of the model. `cause` is text, never the original error, which may hold headers with
 * keys.
 */
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

/** The failure for an aborted signal, with the message of its reason. */
export function cancelledFailure(part: ModelPart, what: string, signal: AbortSignal): AttributedError {
  const reason: unknown = signal.reason;
  return modelFailure(part, "cancelled", {
    message: `Cannot ${what}: the call was cancelled.`,
    cause: reason instanceof Error ? reason.message : String(reason),
  });
}

type RefusedCall = {
  readonly part: ModelPart;
  readonly status: number;
  /** The value of a header by lowercase name; `null` if the answer does not have it. */
  readonly header: (name: string) => string | null;
  /** The body for messages: bounded and without secrets. */
  readonly body: string;
  /** The model and its address. */
  readonly where: string;
};

export function statusFailure({ part, status, header, body, where }: RefusedCall): AttributedError {
  const code = codeOf(status, body);
  return modelFailure(part, code, {
    message: `Cannot ${askingOf(part, where)}: the server answered ${status}, expected 200${remedies[code] ?? ""}.`,
    cause: body === "" ? null : body,
    retryAfterMs: readRetryAfter(header),
  });
}

function codeOf(status: number, body: string): ModelFailureCode {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 402) return "quota-exceeded";
  if (status === 408) return "timeout";
  if (status === 413) return "context-length";
  // OpenAI also answers 429 for an account without credit; waiting does not help then.
  if (status === 429) return /insufficient_quota|billing_hard_limit/.test(body) ? "quota-exceeded" : "rate-limited";
  if (status === 409 || status === 425 || status >= 500) return "server-error";
  if (/context_length|context length|context window|prompt is too long/i.test(body)) return "context-length";
  return "bad-request";
}

const remedies: Readonly<Partial<Record<ModelFailureCode, string>>> = {
  unauthorized: "; give a key that may use this model with apiKey or apiKeyVariable",
  "quota-exceeded": "; add credit to the account, or choose another model",
  "context-length": "; choose a model with a longer context, or end episodes after fewer turns",
  "bad-request": "; check the name of the model, the url and the parameters in extraBody",
};

/** Reads `retry-after-ms`, or `retry-after` in seconds or as a date; `null` if neither is valid. */
function readRetryAfter(header: (name: string) => string | null, wallClock: () => number = Date.now): number | null {
  const milliseconds = Number.parseFloat(header("retry-after-ms") ?? "");
  if (milliseconds >= 0) return milliseconds;
  const text = header("retry-after")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, date - wallClock());
}
