// Python's `int(text)`, `float(text)` and `int(float)`: white space around, underscores between digits, digits of any
// script, and limits that JavaScript does not have.

import { JsonFloat } from "../json/index.ts";
import { PythonError, pythonStrip } from "../index.ts";

/** Longest integer text CPython converts. */
const maxIntegerDigits = 4300;

/** `int(text)`. Throws a `PythonError` "ValueError". */
export function pythonInt(text: string): number | bigint {
  const stripped = plainNumber(text);
  if (!/^[+-]?\d+(?:_\d+)*$/.test(stripped)) throw new PythonError("ValueError", "no integer");
  const digits = stripped.replaceAll("_", "");
  if (digits.replace(/^[+-]/, "").length > maxIntegerDigits) {
    throw new PythonError("ValueError", `an integer of more than ${maxIntegerDigits} digits`);
  }
  return normalInteger(BigInt(digits.replace(/^\+/, "")));
}

/** `float(text)`. Throws a `PythonError` "ValueError". */
export function pythonFloat(text: string): JsonFloat {
  const stripped = plainNumber(text);
  const special = /^([+-]?)(?:(inf(?:inity)?)|nan)$/i.exec(stripped);
  if (special !== null) {
    const magnitude = special[2] === undefined ? NaN : Infinity;
    return new JsonFloat(special[1] === "-" ? -magnitude : magnitude);
  }
  const digits = String.raw`\d+(?:_\d+)*`;
  const pattern = new RegExp(`^[+-]?(?:(?:${digits})?\\.${digits}|${digits}\\.?)(?:e[+-]?${digits})?$`, "i");
  if (!pattern.test(stripped)) throw new PythonError("ValueError", "no float");
  return new JsonFloat(Number(stripped.replaceAll("_", "")));
}

/** `int(value)` of a float. Throws "OverflowError" for infinities and "ValueError" for NaN. */
export function integerOf(value: number): number | bigint {
  if (value !== value) throw new PythonError("ValueError", "no integer is NaN");
  if (!Number.isFinite(value)) throw new PythonError("OverflowError", "no integer is infinite");
  return normalInteger(BigInt(Math.trunc(value)));
}

/** A float as it is, or the integer it equals. Throws as {@link integerOf}. */
export function narrowFloat(float: JsonFloat): JsonFloat | number | bigint {
  const integer = integerOf(float.value);
  return Number.isInteger(float.value) ? integer : float;
}

export function normalInteger(value: bigint): number | bigint {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

const otherDigit = /[^\P{Nd}0-9]/gu;
const decimalDigit = /^\p{Nd}$/u;

/** Without the white space around it, which is less in pure ASCII text (no control characters), and with ASCII digits. */
function plainNumber(text: string): string {
  if (/^[\0-\x7f]*$/.test(text)) return pythonStrip(text, " \t\n\v\f\r");
  return asciiDigits(pythonStrip(text));
}

/** Decimal digits of other scripts as ASCII. They come in unbroken rows of ten. */
function asciiDigits(text: string): string {
  return text.replace(otherDigit, (digit) => {
    let first = digit.codePointAt(0)!;
    const code = first;
    while (decimalDigit.test(String.fromCodePoint(first - 1))) first--;
    return String((code - first) % 10);
  });
}
