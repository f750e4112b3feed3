// Python's `/`, `//`, `%` and `**` of numbers: integers stay exact, quotients round down, the remainder has the sign of the
// divisor. Left to JavaScript all four would differ.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { maxIntegerBits } from "../limits.ts";
import { limitError, pythonError } from "../values/raise.ts";
import type { Integer } from "../values/value.ts";

type Number_ = Integer | JsonFloat;

export function divide(left: Number_, right: Number_): JsonFloat {
  const divisor = toFloat(right);
  if (divisor === 0) throw zeroDivision();
  const isExact = typeof left !== "bigint" && typeof right !== "bigint";
  if (isExact || left instanceof JsonFloat || right instanceof JsonFloat) return new JsonFloat(toFloat(left) / divisor);
  return new JsonFloat(divideIntegers(BigInt(left), BigInt(right)));
}

/** Rounded once, from the exact quotient. */
function divideIntegers(left: bigint, right: bigint): number {
  const bits = (value: bigint): number => value.toString(2).length;
  const shift = 66 - bits(left) + bits(right);
  const [dividend, divisor] = shift >= 0 ? [left << BigInt(shift), right] : [left, right << BigInt(-shift)];
  const isRest = dividend % divisor !== 0n;
  const sign = left < 0n === right < 0n ? 1n : -1n;
  // The bit below the quotient tells the rounding that there is more.
  return Number((dividend / divisor) * 2n + (isRest ? sign : 0n)) * 2 ** -(shift + 1);
}

export function floorDivide(left: Number_, right: Number_): Number_ {
  if (left instanceof JsonFloat || right instanceof JsonFloat) {
    const [dividend, divisor] = [toFloat(left), toFloat(right)];
    if (divisor === 0) throw zeroDivision();
    return new JsonFloat(Math.floor((dividend - floatRemainder(dividend, divisor)) / divisor + 0.5));
  }
  return floorIntegers(left, right).quotient;
}

export function remainder(left: Number_, right: Number_): Number_ {
  if (left instanceof JsonFloat || right instanceof JsonFloat) {
    const [dividend, divisor] = [toFloat(left), toFloat(right)];
    if (divisor === 0) throw zeroDivision();
    return new JsonFloat(floatRemainder(dividend, divisor));
  }
  return floorIntegers(left, right).remainder;
}

/** Throws "limit" for integers beyond our bound, and for the complex numbers that Python would answer with. */
export function power(base: Number_, exponent: Number_): Number_ {
  if (base instanceof JsonFloat || exponent instanceof JsonFloat || exponent < 0) {
    const [left, right] = [toFloat(base), toFloat(exponent)];
    if (left === 0 && right < 0) throw zeroDivision();
    if (left < 0 && !Number.isInteger(right)) throw limitError("it computes with a complex number");
    return new JsonFloat(left ** right);
  }
  if (base >= -1 && base <= 1)
    return base < 0 && BigInt(exponent) % 2n === 0n ? 1 : base === 0 && exponent === 0 ? 1 : base;
  const bits = BigInt(base).toString(2).length;
  if (BigInt(exponent) * BigInt(bits) > maxIntegerBits) {
    throw limitError(`it computes an integer of more than ${maxIntegerBits} bits`);
  }
  return normalizeInteger(BigInt(base) ** BigInt(exponent));
}

/** A `number` while that is exact. */
export function normalizeInteger(value: bigint): Integer {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

/** `float(value)`. Throws an "OverflowError" for integers that no float holds. */
export function toFloat(value: Number_): number {
  if (value instanceof JsonFloat) return value.value;
  const float = Number(value);
  if (Number.isFinite(float)) return float;
  throw pythonError("OverflowError", "an integer is too large for a float");
}

function floorIntegers(left: Integer, right: Integer): { readonly quotient: Integer; readonly remainder: Integer } {
  if (BigInt(right) === 0n) throw zeroDivision();
  if (typeof left === "number" && typeof right === "number") {
    // The sum turns JavaScript's -0 into 0.
    const rest = (left % right) + 0;
    const shifted = rest !== 0 && rest < 0 !== right < 0 ? rest + right : rest;
    return { quotient: (left - shifted) / right + 0, remainder: shifted };
  }
  const [dividend, divisor] = [BigInt(left), BigInt(right)];
  let rest = dividend % divisor;
  if (rest !== 0n && rest < 0n !== divisor < 0n) rest += divisor;
  return { quotient: normalizeInteger((dividend - rest) / divisor), remainder: normalizeInteger(rest) };
}

/** C's `fmod`, moved to the sign of the divisor; a zero gets that sign too. */
function floatRemainder(dividend: number, divisor: number): number {
  const rest = dividend % divisor;
  if (rest === 0) return divisor < 0 ? -0 : 0;
  return rest < 0 !== divisor < 0 ? rest + divisor : rest;
}

function zeroDivision(): Error {
  return pythonError("ZeroDivisionError", "a number was divided by zero");
}
