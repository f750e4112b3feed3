// A Python exception that the reference parser would let out, kept as data about the model's output. Not a fault of ours:
// serving code catches it and falls back to the plain text, so what it does to the result is part of the format.

import { JsonSyntaxError } from "../lib/json/index.ts";

/** `type` is the exception's class, as the parser vectors name it. */
export class PythonError extends Error {
  readonly type: string;

  constructor(type: string, message: string) {
    super(message);
    this.name = "PythonError";
    this.type = type;
  }
}

/** The class of the Python exception that `error` stands for; `null` when it is a mistake of our own. */
export function pythonErrorType(error: unknown): string | null {
  if (error instanceof PythonError) return error.type;
  if (error instanceof JsonSyntaxError) return error.pythonType;
  return null;
}
