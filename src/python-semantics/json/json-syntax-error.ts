// Why a text is no JSON to Python's reader. The words and positions are Python's own, because parsers that imitate
// Python programs show them.

import { codePointLength } from "../strings.ts";

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

/** A decode error worded as Python words it, with line, column and position counted in code points. */
export function decodeError(reason: string, text: string, offset: number): JsonSyntaxError {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf("\n") + 1;
  const line = before.split("\n").length;
  const column = codePointLength(before.slice(lineStart)) + 1;
  const position = codePointLength(before);
  return new JsonSyntaxError("JSONDecodeError", `${reason}: line ${line} column ${column} (char ${position})`, offset);
}
