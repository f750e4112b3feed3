// Exceptions of Python code, as values that tools, readers and templates catch.

import { codePointLength } from "./strings.ts";

/**
 * A text that Python's `json.loads` refuses. `pythonType` is the exception it raises there: nesting beyond the recursion
 * limit is a `RecursionError`, an integer beyond 4,300 digits a `ValueError`.
 */
export class JsonSyntaxError extends Error {
  readonly pythonType: "JSONDecodeError" | "RecursionError" | "ValueError";
  /** What `str(error)` is in Python. */
  readonly pythonMessage: string;
  /** UTF-16 offset where the reader gave up. */
  readonly offset: number;

  constructor(pythonType: JsonSyntaxError["pythonType"], pythonMessage: string, offset: number) {
    super(`Cannot parse JSON: ${pythonMessage}.`);
    this.name = "JsonSyntaxError";
    this.pythonType = pythonType;
    this.pythonMessage = pythonMessage;
    this.offset = offset;
  }
}

/** A decode error with Python's message, with line, column and position counted in code points. */
export function decodeError(reason: string, text: string, offset: number): JsonSyntaxError {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  const line = before.split("\n").length;
  const column = codePointLength(before.slice(lineStart)) + 1;
  const position = codePointLength(before);
  return new JsonSyntaxError("JSONDecodeError", `${reason}: line ${line} column ${column} (char ${position})`, offset);
}

/**
 * An exception that Python code would have raised here; `message` is its `str()`. Where behaviour must equal a Python
 * reference, errors are part of it.
 */
export class PythonError extends Error {
  /** Name of the Python class, e.g. `KeyError`; "limit" for a bound that Python does not have. */
  readonly pythonType: string;

  constructor(pythonType: string, message: string) {
    super(message);
    this.name = "PythonError";
    this.pythonType = pythonType;
  }
}

export function typeError(message: string): PythonError {
  return new PythonError("TypeError", message);
}

export function valueError(message: string): PythonError {
  return new PythonError("ValueError", message);
}

/**
 * The class of the Python exception that `error` stands for; `null` when it is a mistake of our own. What the reference
 * parser lets out is data about the model's output: serving code catches it and falls back to the plain text.
 */
export function pythonExceptionType(error: unknown): string | null {
  if (error instanceof PythonError || error instanceof JsonSyntaxError) return error.pythonType;
  return null;
}

/** What `read` gives; `undefined` where it raises a Python exception of one of these classes (`null`: of any). */
export function unlessRaised<Value>(classes: readonly string[] | null, read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised !== null && (classes === null || classes.includes(raised))) return undefined;
    throw error;
  }
}
