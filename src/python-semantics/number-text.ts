// Numbers out of text and floats as Python reads them: `int(text)`, `float(text)`, `int(float)`. White space around,
// underscores between digits, digits of any script, and limits that JavaScript does not have.

import { JsonFloat, type JsonValue } from "./json/value.ts";
import { PythonError } from "./python-error.ts";
import { stringRepr } from "./repr.ts";
import { pythonStrip } from "./strip.ts";
import { pythonTypeName } from "./type-name.ts";

/** Longest integer CPython converts (`sys.get_int_max_str_digits()`). */
export const maxIntegerDigits = 4300;

/** `int(text)`. Throws a `PythonError` where Python raises; a value that is no text is a "TypeError" here. */
export function pythonInt(value: JsonValue): number | bigint {
  if (typeof value !== "string") {
    const message = `int() argument must be a string, a bytes-like object or a real number, not '${pythonTypeName(value)}'`;
    throw new PythonError("TypeError", message);
  }
  const stripped = plainNumber(value);
  if (!/^[+-]?\d+(?:_\d+)*$/.test(stripped)) {
    throw new PythonError("ValueError", `invalid literal for int() with base 10: ${stringRepr(value)}`);
  }
  const digits = stripped.replaceAll("_", "").replace(/^\+/, "");
  const count = digits.replace("-", "").length;
  if (count > maxIntegerDigits) throw new PythonError("ValueError", tooManyDigits(count));
  return normalInteger(BigInt(digits));
}

/** What Python says of a text with so many digits. */
export function tooManyDigits(count: number): string {
  return `Exceeds the limit (${maxIntegerDigits} digits) for integer string conversion: value has ${count} digits; use sys.set_int_max_str_digits() to increase the limit`;
}

const digits = String.raw`\d+(?:_\d+)*`;
const floatPattern = new RegExp(`^[+-]?(?:(?:${digits})?\\.${digits}|${digits}\\.?)(?:e[+-]?${digits})?$`, "i");

/** `float(text)`. Throws a `PythonError` "ValueError". */
export function pythonFloat(text: string): JsonFloat {
  const stripped = plainNumber(text);
  const special = /^([+-]?)(?:(inf(?:inity)?)|nan)$/i.exec(stripped);
  if (special !== null) {
    const magnitude = special[2] === undefined ? NaN : Infinity;
    return new JsonFloat(special[1] === "-" ? -magnitude : magnitude);
  }
  if (!floatPattern.test(stripped)) {
    throw new PythonError("ValueError", `could not convert string to float: ${stringRepr(text)}`);
  }
  return new JsonFloat(Number(stripped.replaceAll("_", "")));
}

/** `int(value)` of a float. Throws "OverflowError" for infinities and "ValueError" for NaN. */
export function integerOf(value: number): number | bigint {
  if (value !== value) throw new PythonError("ValueError", "cannot convert float NaN to integer");
  if (!Number.isFinite(value)) throw new PythonError("OverflowError", "cannot convert float infinity to integer");
  return normalInteger(BigInt(Math.trunc(value)));
}

/** A float as it is, or the integer it equals. Throws as {@link integerOf}. */
export function narrowFloat(float: JsonFloat): JsonFloat | number | bigint {
  const integer = integerOf(float.value);
  return Number.isInteger(float.value) ? integer : float;
}

/** An integer as JSON values hold it: a `number` while safe. */
export function normalInteger(value: bigint): number | bigint {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

/** Without the white space around it, which is less in pure ASCII text (no control characters), and with ASCII digits. */
function plainNumber(text: string): string {
  if (/^[\0-\x7f]*$/.test(text)) return pythonStrip(text, " \t\n\v\f\r");
  return pythonStrip(text).replace(/[^\P{Nd}0-9]/gu, decimalDigit);
}

/** The digits of a script stand in unbroken rows of ten, from zero up. */
function decimalDigit(character: string): string {
  const code = character.codePointAt(0)!;
  let zero = code;
  while (/^\p{Nd}$/u.test(String.fromCodePoint(zero - 1))) zero--;
  return String((code - zero) % 10);
}
