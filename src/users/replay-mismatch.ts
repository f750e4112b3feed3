// The failure of a user that has to say what it said before, and is asked something else. A file of its own, so that users
// without a model load no client of models.

import { AttributedError } from "../core/index.ts";

/** A fault of the user. `cause` is words, never the error below. */
export function replayMismatch(message: string, cause: string | null = null): AttributedError {
  return new AttributedError({ boundary: "user", code: "replay-mismatch", message, retryable: false, cause });
}
