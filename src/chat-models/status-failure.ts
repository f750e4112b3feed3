// What an HTTP status of a chat completion server means: which failure it is, and how long to wait. Shared by the
// OpenAI-compatible client and the provider library, whose errors carry the same facts.

import type { AttributedError } from "../core/index.ts";
import { askingOf, modelFailure, type ModelFailureCode, type ModelPart } from "./model-failure.ts";

export type RefusedCall = {
  readonly part: ModelPart;
  readonly status: number;
  /** By lower-case name; `null` when the header did not come. */
  readonly header: (name: string) => string | null;
  /** Shown to people: bounded and without secrets. */
  readonly body: string;
  /** Which model, where. */
  readonly where: string;
};

export function statusFailure({ part, status, header, body, where }: RefusedCall): AttributedError {
  const code = codeOf(status, body);
  return modelFailure(part, code, {
    message: `Cannot ${askingOf(part, where)}: the server answered ${status}, 200 is wanted${remedy(code)}.`,
    cause: body === "" ? null : body,
    retryAfterMs: readRetryAfter(header),
  });
}

function codeOf(status: number, body: string): ModelFailureCode {
  if (status === 401 || status === 403) return "unauthorized";
  if (status === 402) return "quota-exceeded";
  if (status === 408) return "timeout";
  if (status === 413) return "context-length";
  // OpenAI answers 429 for an empty account too; waiting does not fill it.
  if (status === 429) return /insufficient_quota|billing_hard_limit/.test(body) ? "quota-exceeded" : "rate-limited";
  if (status === 409 || status === 425 || status >= 500) return "server-error";
  if (/context_length|context length|context window|prompt is too long/i.test(body)) return "context-length";
  return "bad-request";
}

function remedy(code: ModelFailureCode): string {
  switch (code) {
    case "unauthorized":
      return "; give a key that may use this model with apiKey or apiKeyVariable";
    case "quota-exceeded":
      return "; fill the account, or choose another model";
    case "context-length":
      return "; choose a model with a longer context, or end episodes after fewer turns";
    case "bad-request":
      return "; check the name of the model, the url and the parameters in extraBody";
    default:
      return "";
  }
}

/** Reads `retry-after-ms`, or `retry-after` in seconds or as a date; `null` when neither can be read. */
export function readRetryAfter(
  header: (name: string) => string | null,
  wallClock: () => number = Date.now,
): number | null {
  const milliseconds = Number.parseFloat(header("retry-after-ms") ?? "");
  if (milliseconds >= 0) return milliseconds;
  const text = header("retry-after")?.trim() ?? "";
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? null : Math.max(0, date - wallClock());
}
