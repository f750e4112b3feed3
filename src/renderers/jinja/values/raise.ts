// Exceptions of Python code, as the one error that templates throw. Goldens and callers tell them by their kind.

import { ChatTemplateError } from "../../chat-template.ts";
import type { Undefined } from "./value.ts";

/** The Python class as kind; the sentence says where it came up. */
export function pythonError(kind: string, what: string): ChatTemplateError {
  return new ChatTemplateError(kind, `Cannot render the conversation with this chat template: ${what}.`);
}

export function typeError(what: string): ChatTemplateError {
  return pythonError("TypeError", what);
}

export function valueError(what: string): ChatTemplateError {
  return pythonError("ValueError", what);
}

/** What using an undefined value raises. */
export function undefinedError(value: Undefined): ChatTemplateError {
  return pythonError(value.kind, value.reason);
}

/** A bound of ours that Python does not have; see `limits.ts`. */
export function limitError(what: string): ChatTemplateError {
  return pythonError("limit", what);
}
