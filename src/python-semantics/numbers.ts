// Python's arithmetic: int with int stays an exact int, a float makes a float, a bool counts as 0
// or 1. Floats behave as in JavaScript, except for `//` and `%` (the fmod scheme) and `**`
// (`power.ts`). Errors have CPython's messages.

import { PythonComplex, powerComplex } from "./complex.ts";
import { PythonError, typeError } from "./errors.ts";
import { type Int, JsonFloat, type JsonValue, numberOf, type PythonNumber, pythonTypeName } from "./json/value.ts";
import { normalInteger } from "./number-text.ts";
import { bitLength, positivePower, roundRatio } from "./power.ts";
import type { PythonValue } from "./values.ts";

export type BinaryOperator = "+" | "-" | "*" | "/" | "//" | "%" | "**";

/** Limits the size of exact integers; Python has no such limit. */
export interface IntegerBudget {
  /** Announces a result (or operand) of this many bits. Throws if the budget is exceeded. */
  spend(bits: number): void;
}

const noBudget: IntegerBudget = { spend: () => {} };

/**
 * The value for JavaScript comparisons, exact across number and bigint; `null` if it is not a real
 * number.
 */
export function scalarOf(value: PythonValue): Int | null {
  const number = numberOf(value);
  return number instanceof JsonFloat ? number.value : number;
}

/** `float(number)`. Throws an "OverflowError" for integers beyond the range of floats. */
export function toFloat(value: PythonNumber): number {
  if (value instanceof JsonFloat) return value.value;
  const float = Number(value);
  if (Number.isFinite(float)) return float;
  throw new PythonError("OverflowError", "int too large to convert to float");
}

/** `left + right`, or `left += right`, which differs only in its error message. */
export function pythonAdd(left: JsonValue, right: JsonValue, operator: "+" | "+=" = "+"): PythonNumber {
  return calculateReal(left, right, operator);
}

/** `left - right`, or `left -= right`. */
export function pythonSubtract(left: JsonValue, right: JsonValue, operator: "-" | "-=" = "-"): PythonNumber {
  return calculateReal(left, right, operator);
}

/** `left * right`, only for numbers. */
export function pythonMultiply(left: JsonValue, right: JsonValue): PythonNumber {
  return calculateReal(left, right, "*");
}

function calculateReal(left: JsonValue, right: JsonValue, operator: "+" | "+=" | "-" | "-=" | "*"): PythonNumber {
  const [a, b] = [numberOf(left), numberOf(right)];
  if (a === null || b === null) throw unsupportedOperands(operator, left, right);
  return calculateNumbers(operator[0] as "+" | "-" | "*", [a, b]);
}

/** `-value` of a number: the int 0 stays 0, the float 0.0 becomes -0.0. */
export function pythonNegate(value: PythonValue): PythonNumber {
  const number = numberOf(value);
  if (number === null) throw typeError(`bad operand type for unary -: '${pythonTypeName(value)}'`);
  if (number instanceof JsonFloat) return new JsonFloat(-number.value);
  return typeof number === "number" ? 0 - number : normalInteger(-number);
}

export function unsupportedOperands(operator: string, left: PythonValue, right: PythonValue): PythonError {
  const names = `'${pythonTypeName(left)}' and '${pythonTypeName(right)}'`;
  return typeError(`unsupported operand type(s) for ${operator === "**" ? "** or pow()" : operator}: ${names}`);
}

type Operands<T> = readonly [left: T, right: T];

/** Applies an operator to two numbers; a power of a negative float may be complex. */
export function calculateNumbers(operator: "+" | "-" | "*", operands: Operands<PythonNumber>): PythonNumber;
export function calculateNumbers(
  operator: BinaryOperator,
  operands: Operands<PythonNumber>,
  budget?: IntegerBudget,
): PythonNumber | PythonComplex;
export function calculateNumbers(
  operator: BinaryOperator,
  [left, right]: Operands<PythonNumber>,
  budget: IntegerBudget = noBudget,
): PythonNumber | PythonComplex {
  if (left instanceof JsonFloat || right instanceof JsonFloat) {
    return calculateFloats(operator, toFloat(left), toFloat(right));
  }
  // The common case of small numbers; adding zero turns JavaScript's -0 into 0.
  if (typeof left === "number" && typeof right === "number") {
    const result = operator === "+" ? left + right : operator === "-" ? left - right : left * right;
    if ("+-*".includes(operator) && Number.isSafeInteger(result)) return result + 0;
    if (operator === "/" && right !== 0) return new JsonFloat(left / right);
  }
  return calculateIntegers(operator, [BigInt(left), BigInt(right)], budget);
}

function calculateIntegers(
  operator: BinaryOperator,
  [left, right]: Operands<bigint>,
  budget: IntegerBudget,
): PythonNumber | PythonComplex {
  switch (operator) {
    case "+":
      return normalInteger(left + right);
    case "-":
      return normalInteger(left - right);
    case "*":
      budget.spend(bitLength(left) + bitLength(right));
      return normalInteger(left * right);
    case "/": {
      if (right === 0n) throw zeroDivision("division by zero");
      budget.spend(bitLength(left));
      const quotient = roundRatio(left, right);
      if (Number.isFinite(quotient)) return new JsonFloat(quotient);
      throw new PythonError("OverflowError", "integer division result too large for a float");
    }
    case "//":
    case "%": {
      if (right === 0n) throw zeroDivision("integer division or modulo by zero");
      budget.spend(bitLength(left));
      let rest = left % right;
      if (rest !== 0n && rest < 0n !== right < 0n) rest += right;
      return normalInteger(operator === "%" ? rest : (left - rest) / right);
    }
    case "**":
      if (right < 0n) return calculateFloats("**", toFloat(left), toFloat(right));
      if (left >= -1n && left <= 1n) return normalInteger(right === 0n ? 1n : left ** (2n - (right & 1n)));
      budget.spend((bitLength(left) - 1) * Number(right));
      return normalInteger(left ** right);
    default:
      return operator satisfies never;
  }
}

const floatZeroDivisions: Readonly<Record<string, string>> = {
  "/": "float division by zero",
  "//": "float floor division by zero",
  "%": "float modulo",
};

function calculateFloats(operator: BinaryOperator, left: number, right: number): JsonFloat | PythonComplex {
  const zeroProblem = right === 0 ? floatZeroDivisions[operator] : undefined;
  if (zeroProblem !== undefined) throw zeroDivision(zeroProblem);
  switch (operator) {
    case "+":
      return new JsonFloat(left + right);
    case "-":
      return new JsonFloat(left - right);
    case "*":
      return new JsonFloat(left * right);
    case "/":
      return new JsonFloat(left / right);
    case "//":
      return new JsonFloat(floorDivide(left, right));
    case "%":
      return new JsonFloat(remainder(left, right));
    case "**": {
      const power = powerFloats(left, right);
      return power === null
        ? powerComplex(new PythonComplex(left, 0), new PythonComplex(right, 0))
        : new JsonFloat(power);
    }
    default:
      return operator satisfies never;
  }
}

/** C's `fmod`, adjusted to the sign of the divisor; a zero gets that sign too. */
function remainder(dividend: number, divisor: number): number {
  const rest = dividend % divisor;
  if (rest === 0) return divisor < 0 ? -0 : 0;
  return rest < 0 !== divisor < 0 ? rest + divisor : rest;
}

function floorDivide(left: number, right: number): number {
  let rest = left % right;
  let quotient = (left - rest) / right;
  if (rest !== 0 && right < 0 !== rest < 0) {
    rest += right;
    quotient -= 1;
  }
  if (quotient === 0) return left / right < 0 || Object.is(left / right, -0) ? -0 : 0;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

/** `null` if the result is complex: a negative base with a fractional exponent. */
function powerFloats(base: number, exponent: number): number | null {
  if (base === 1 || (Math.abs(base) === 1 && Math.abs(exponent) === Infinity)) return 1;
  if (base === 0 && exponent < 0 && exponent !== -Infinity) {
    throw zeroDivision("0.0 cannot be raised to a negative power");
  }
  // JavaScript is exact for these: zeros, infinities, NaN.
  if (base === 0 || exponent === 0 || !Number.isFinite(base) || !Number.isFinite(exponent)) return base ** exponent;
  if (base < 0 && !Number.isInteger(exponent)) return null;
  const magnitude = base === -1 ? 1 : positivePower(Math.abs(base), exponent);
  if (magnitude === Infinity) throw new PythonError("OverflowError", "(34, 'Numerical result out of range')");
  return base < 0 && Math.abs(exponent % 2) === 1 ? -magnitude : magnitude;
}

/** A complex number, or a real one converted to complex; `null` for anything else. */
export function complexOf(value: PythonValue): PythonComplex | null {
  if (value instanceof PythonComplex) return value;
  const number = numberOf(value);
  return number === null ? null : new PythonComplex(toFloat(number), 0);
}

function zeroDivision(message: string): PythonError {
  return new PythonError("ZeroDivisionError", message);
}
