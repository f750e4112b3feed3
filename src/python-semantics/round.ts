// Python's `round(x, digits)`: the correctly rounded decimal of the exact binary value, ties to even. `toFixed` rounds
// ties away from zero (0.125 gives 0.13, Python 0.12) and changes its format from 1e21 up.

import { JsonFloat } from "./json/value.ts";

/** `round(x, digits)` of a float. `digits` is an integer from 0 to 22; anything else throws a `RangeError`. */
export function roundFloat(value: number, digits: number): number {
  if (!Number.isInteger(digits) || digits < 0 || digits > 22) {
    throw new RangeError(`Cannot round to ${digits} digits: give an integer from 0 to 22.`);
  }
  // From 2^52 up every float is an integer; the sign of a zero does not survive toFixed.
  if (!(Math.abs(value) < 4503599627370496) || value === 0) return value;
  const fixed = value.toFixed(digits);
  // A tie is an odd multiple of 2^-(digits + 1): no other binary fraction stands half-way between two decimals.
  const scaled = value * 2 ** (digits + 1);
  if (!Number.isInteger(scaled) || scaled % 2 === 0) return Number(fixed);
  // toFixed went away from zero; an odd last digit is one too far.
  const last = fixed.charCodeAt(fixed.length - 1) - 0x30;
  return last % 2 === 0 ? Number(fixed) : Number(fixed.slice(0, -1) + String(last - 1));
}

/** `round(x, digits)` of any Python number: an int stays an int, a bool becomes one. */
export function pythonRound(value: number | bigint | boolean | JsonFloat, digits: number): number | bigint | JsonFloat {
  if (value instanceof JsonFloat) return new JsonFloat(roundFloat(value.value, digits));
  return typeof value === "boolean" ? Number(value) : value;
}
