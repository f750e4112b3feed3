// Errors of a session's calls, as their clients receive them: the engine failed, or the record
// could not be written.

import { attribute, AttributedError } from "../core/index.ts";
import { GatewayError } from "./request.ts";

/**
 * `most`: maximum number of tokens of a context, where it is known. `constrainedBy`: fields of the
 * client that constrain the call, whose values the server may refuse.
 */
export function engineError(
  error: unknown,
  prompt: { readonly tokens: number; readonly most: number | null; readonly constrainedBy: readonly string[] },
): GatewayError {
  const { code, message, retryable } = attribute(error, "engine").failure;
  if (code === "context-length") {
    const { tokens, most } = prompt;
    return new GatewayError("context-length", message, {
      context: most === null ? null : { tokens, most },
      cause: error,
    });
  }
  const [field] = prompt.constrainedBy;
  if (code === "bad-request" && field !== undefined) {
    const said = `Cannot serve the request: the server refused it, which is constrained by ${prompt.constrainedBy.join(" and ")}: ${message}`;
    return new GatewayError("invalid-request", said, { param: field, cause: error });
  }
  if (!retryable) return new GatewayError("engine-failed", message, { cause: error });
  const afterMs = error instanceof AttributedError ? error.retryAfterMs : null;
  return new GatewayError("overloaded", message, { retryAfterMs: afterMs ?? 2000, cause: error });
}

/** Resolves once the events are recorded. Rejects with a `GatewayError`. */
export async function recorded(recording: Promise<unknown>): Promise<void> {
  try {
    await recording;
  } catch (error) {
    const { message } = attribute(error, "store").failure;
    throw new GatewayError("overloaded", message, { retryAfterMs: 5000, cause: error });
  }
}
