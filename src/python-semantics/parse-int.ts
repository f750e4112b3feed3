// Python's `int(value)`. Digits of every script count, single underscores between digits are skipped, blanks around are
// stripped.

import type { JsonValue } from "./json/value.ts";
import { PythonError } from "./python-error.ts";
import { stringRepr } from "./repr.ts";
import { pythonStrip } from "./strip.ts";
import { pythonTypeName } from "./type-name.ts";

/** `int(text)`. Throws a `PythonError` where Python raises; any other type is a `TypeError` here. */
export function pythonInt(value: JsonValue): bigint {
  if (typeof value !== "string") {
    const message = `int() argument must be a string, a bytes-like object or a real number, not '${pythonTypeName(value)}'`;
    throw new PythonError("TypeError", message);
  }
  const match = /^([+-]?)(\p{Nd}+(?:_\p{Nd}+)*)$/u.exec(pythonStrip(value));
  if (match === null) {
    throw new PythonError("ValueError", `invalid literal for int() with base 10: ${stringRepr(value)}`);
  }
  const digits = Array.from(match[2]!.replaceAll("_", ""), decimalDigit).join("");
  const magnitude = BigInt(digits);
  return match[1] === "-" ? -magnitude : magnitude;
}

/** The digits of a script stand in blocks of ten, from zero up; a block starts where the character before is no digit. */
function decimalDigit(character: string): number {
  const code = character.codePointAt(0)!;
  let zero = code;
  while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero--;
  return (code - zero) % 10;
}
