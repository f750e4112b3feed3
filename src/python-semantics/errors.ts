// Exceptions of Python code, as values that tools, parsers and templates catch.

import { codePointLength } from "./strings.ts";

/**
 * A text that Python's `json.loads` rejects. `pythonType` is the exception that Python raises: a
 * `RecursionError` for nesting beyond the recursion limit, a `ValueError` for an integer beyond
 * 4,300 digits.
 */
export class JsonSyntaxError extends Error {
  readonly pythonType: "JSONDecodeError" | "RecursionError" | "ValueError";
  /** The message, equal to `str(error)` in Python. */
  readonly pythonMessage: string;
  /** UTF-16 offset at which the parser failed. */
  readonly offset: number;

  constructor(pythonType: JsonSyntaxError["pythonType"], pythonMessage: string, offset: number) {
    super(`Cannot parse JSON: ${pythonMessage}.`);
    this.name = "JsonSyntaxError";
    this.pythonType = pythonType;
    this.pythonMessage = pythonMessage;
    this.offset = offset;
  }
}

/**
 * Creates a decode error with Python's message; line, column and position are counted in code
 * points.
 */
export function decodeError(reason: string, text: string, offset: number): JsonSyntaxError {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  const line = before.split("\n").length;
  const column = codePointLength(before.slice(lineStart)) + 1;
  const position = codePointLength(before);
  return new JsonSyntaxError("JSONDecodeError", `${reason}: line ${line} column ${column} (char ${position})`, offset);
}

/**
 * An exception that Python code would have raised here; `message` is its `str()`. If behaviour must
 * equal a Python reference, its errors must too.
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
 * The class of the Python exception that `error` represents; `null` if it is a bug of our own. An
 * exception from the reference parser is data about the model's output: serving code catches it and
 * falls back to the plain text.
 */
export function pythonExceptionType(error: unknown): string | null {
  if (error instanceof PythonError || error instanceof JsonSyntaxError) return error.pythonType;
  return null;
}

/**
 * The result of `read`; `undefined` if it raises a Python exception of one of these classes
 * (`null`: of any class).
 */
export function unlessRaised<Value>(classes: readonly string[] | null, read: () => Value): Value | undefined {
  try {
    return read();
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised !== null && (classes === null || classes.includes(raised))) return undefined;
    throw error;
  }
}
