// int and float arithmetic of CPython, with its error texts. Integers are exact up to a bound; floats are JavaScript's,
// except for `//` (the fmod scheme) and `**` (see `power.ts`).

import { PythonError } from "../python-error.ts";
import { positivePower } from "./power.ts";
import type { IntegerBudget } from "./integer-budget.ts";
import { bitLength, roundRatio } from "./round-ratio.ts";

/** `float(int)`. */
export function intToFloat(value: bigint): number {
  const float = Number(value);
  if (!Number.isFinite(float)) throw new PythonError("OverflowError", "int too large to convert to float");
  return float;
}

export function multiplyInts(left: bigint, right: bigint, budget: IntegerBudget): bigint {
  budget.spend(bitLength(left) + bitLength(right));
  return left * right;
}

export function divideInts(left: bigint, right: bigint, budget: IntegerBudget): number {
  if (right === 0n) throw new PythonError("ZeroDivisionError", "division by zero");
  budget.spend(bitLength(left));
  const quotient = roundRatio(left, right);
  if (!Number.isFinite(quotient)) {
    throw new PythonError("OverflowError", "integer division result too large for a float");
  }
  return quotient;
}

export function floorDivideInts(left: bigint, right: bigint, budget: IntegerBudget): bigint {
  if (right === 0n) throw new PythonError("ZeroDivisionError", "integer division or modulo by zero");
  budget.spend(bitLength(left));
  const quotient = left / right;
  return left % right !== 0n && left < 0n !== right < 0n ? quotient - 1n : quotient;
}

/** For an exponent that is not negative. */
export function powerInts(base: bigint, exponent: bigint, budget: IntegerBudget): bigint {
  if (base >= -1n && base <= 1n) return exponent === 0n ? 1n : base ** (2n - (exponent & 1n));
  budget.spend((bitLength(base) - 1) * Number(exponent));
  return base ** exponent;
}

export function divideFloats(left: number, right: number): number {
  if (right === 0) throw new PythonError("ZeroDivisionError", "float division by zero");
  return left / right;
}

export function floorDivideFloats(left: number, right: number): number {
  if (right === 0) throw new PythonError("ZeroDivisionError", "float floor division by zero");
  let remainder = left % right;
  let quotient = (left - remainder) / right;
  if (remainder !== 0 && right < 0 !== remainder < 0) {
    remainder += right;
    quotient -= 1;
  }
  if (quotient === 0) return left / right < 0 || Object.is(left / right, -0) ? -0 : 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

/** `null` when the result is complex: a negative base with a broken exponent. */
export function powerFloats(base: number, exponent: number): number | null {
  if (exponent === 0) return 1;
  if (base !== base) return base;
  if (exponent !== exponent) return base === 1 ? 1 : exponent;
  const isOdd = Math.abs(exponent % 2) === 1;
  if (Math.abs(exponent) === Infinity) {
    if (Math.abs(base) === 1) return 1;
    return exponent > 0 === Math.abs(base) > 1 ? Infinity : 0;
  }
  if (Math.abs(base) === Infinity || base === 0) {
    if (base === 0 && exponent < 0) {
      throw new PythonError("ZeroDivisionError", "0.0 cannot be raised to a negative power");
    }
    const magnitude = exponent > 0 ? Math.abs(base) : 0;
    return isOdd && (base < 0 || Object.is(base, -0)) ? -magnitude : magnitude;
  }
  if (base < 0 && !Number.isInteger(exponent)) return null;
  const magnitude = Math.abs(base) === 1 ? 1 : positivePower(Math.abs(base), exponent);
  if (magnitude === Infinity) throw new PythonError("OverflowError", "(34, 'Numerical result out of range')");
  return base < 0 && isOdd ? -magnitude : magnitude;
}
