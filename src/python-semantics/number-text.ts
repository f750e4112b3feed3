// Conversions between numbers and text with Python's rules: `int(text)`, `float(text)`,
// `int(float)`, `repr(float)`, `round`. They cover surrounding white space, underscores between
// digits, digits of any script, and limits that JavaScript does not have.

import { JsonFloat, type JsonValue, pythonTypeName } from "./json/value.ts";
import { PythonError } from "./errors.ts";
import { stringRepr } from "./string-repr.ts";
import { pythonStrip } from "./strings.ts";

/** Maximum number of digits of an integer that CPython converts (`sys.get_int_max_str_digits()`). */
export const maxIntegerDigits = 4300;

/**
 * `int(text, base)`. Throws a `PythonError` if Python raises; here a value other than text is a
 * "TypeError".
 */
export function pythonInt(text: JsonValue, base = 10): number | bigint {
  if (typeof text !== "string") {
    const message = `int() argument must be a string, a bytes-like object or a real number, not '${pythonTypeName(text)}'`;
    throw new PythonError("TypeError", message);
  }
  const invalid = (): PythonError =>
    new PythonError("ValueError", `invalid literal for int() with base ${base}: ${stringRepr(text)}`);
  const [, sign = "", marked = ""] = /^([+-]?)(.*)$/s.exec(plainNumber(text).toLowerCase()) ?? [];
  const mark = { "0b": 2, "0o": 8, "0x": 16 }[marked.slice(0, 2)];
  const hasMark = mark !== undefined && (base === 0 || base === mark);
  const radix = hasMark ? mark : base === 0 ? 10 : base;
  const body = hasMark ? marked.slice(2).replace(/^_/, "") : marked;
  if (!/^[\da-z]+(?:_[\da-z]+)*$/.test(body)) throw invalid();
  const written = body.replaceAll("_", "");
  if (radix === 10) {
    if (!/^\d+$/.test(written)) throw invalid();
    if (written.length > maxIntegerDigits) throw new PythonError("ValueError", tooManyDigits(written.length));
    return normalInteger(sign === "-" ? -BigInt(written) : BigInt(written));
  }
  let value = 0n;
  for (const digit of written) {
    const place = parseInt(digit, 36);
    if (place >= radix) throw invalid();
    value = value * BigInt(radix) + BigInt(place);
  }
  return normalInteger(sign === "-" ? -value : value);
}

/** Python's error message for a text with this many digits. */
export function tooManyDigits(count: number): string {
  return `Exceeds the limit (${maxIntegerDigits} digits) for integer string conversion: value has ${count} digits; use sys.set_int_max_str_digits() to increase the limit`;
}

const digitGroups = String.raw`\d+(?:_\d+)*`;
const floatPattern = new RegExp(
  `^[+-]?(?:(?:${digitGroups})?\\.${digitGroups}|${digitGroups}\\.?)(?:e[+-]?${digitGroups})?$`,
  "i",
);

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

/** The float unchanged, or the integer that it equals. Throws like {@link integerOf}. */
export function narrowFloat(float: JsonFloat): JsonFloat | number | bigint {
  const integer = integerOf(float.value);
  return Number.isInteger(float.value) ? integer : float;
}

/** An integer in the form of JSON values: a `number` while safe. */
export function normalInteger(value: bigint): number | bigint {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

/**
 * The text with ASCII digits and without surrounding white space; in pure ASCII text, white space
 * excludes control characters.
 */
function plainNumber(text: string): string {
  if (/^[\0-\x7f]*$/.test(text)) return pythonStrip(text, " \t\n\v\f\r");
  return pythonStrip(text).replace(/[^\P{Nd}0-9]/gu, decimalDigit);
}

/** The digits of a script are consecutive code points, ten from zero up. */
function decimalDigit(character: string): string {
  const code = character.codePointAt(0)!;
  let zero = code;
  while (/^\p{Nd}$/u.test(String.fromCodePoint(zero - 1))) zero--;
  return String((code - zero) % 10);
}

/** `repr(float)`: always with a point or an exponent, exponent form below 1e-4 and from 1e16; `inf`, `-inf`, `nan`. */
export function floatRepr(value: number): string {
  if (!Number.isFinite(value)) return value !== value ? "nan" : value > 0 ? "inf" : "-inf";
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
    const text = Object.is(value, -0) ? "-0" : String(value);
    return Number.isInteger(value) ? `${text}.0` : text;
  }
  const [digits, exponent] = value.toExponential().split("e") as [string, string];
  const sign = exponent.startsWith("-") ? "-" : "+";
  return `${digits}e${sign}${exponent.slice(1).padStart(2, "0")}`;
}

/**
 * `round(x, digits)` of a float: the correctly rounded decimal of the exact binary value, ties to even. `toFixed` rounds ties
 * away from zero (0.125 gives 0.13, Python 0.12) and changes its format from 1e21 up. `digits` is an integer from 0 to 22; anything else throws a
 * `RangeError`.
 */
export function roundFloat(value: number, digits: number): number {
  if (!Number.isInteger(digits) || digits < 0 || digits > 22) {
    throw new RangeError(`Cannot round to ${digits} digits: expected an integer from 0 to 22.`);
  }
  // Every float from 2^52 up is an integer; toFixed loses the sign of a zero.
  if (!(Math.abs(value) < 4503599627370496) || value === 0) return value;
  const fixed = value.toFixed(digits);
  // A tie is an odd multiple of 2^-(digits + 1): no other binary fraction is half-way between two
  // decimals.
  const scaled = value * 2 ** (digits + 1);
  if (!Number.isInteger(scaled) || scaled % 2 === 0) return Number(fixed);
  // toFixed rounded away from zero, so an odd last digit is one too far.
  const last = fixed.charCodeAt(fixed.length - 1) - 0x30;
  return last % 2 === 0 ? Number(fixed) : Number(fixed.slice(0, -1) + String(last - 1));
}

/** `round(x, digits)` of any Python number: an int stays an int, a bool becomes one. */
export function pythonRound(value: number | bigint | boolean | JsonFloat, digits: number): number | bigint | JsonFloat {
  if (value instanceof JsonFloat) return new JsonFloat(roundFloat(value.value, digits));
  return typeof value === "boolean" ? Number(value) : value;
}
