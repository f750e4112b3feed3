// Python's arithmetic on numbers that came from JSON: int with int stays int and exact, a float makes a float, a bool
// counts as 0 or 1. Anything else is the `TypeError` Python raises.

import { JsonFloat, type JsonValue } from "./json/value.ts";
import { PythonError } from "./python-error.ts";
import { pythonTypeName } from "./type-name.ts";

type Int = number | bigint;

/** `left + right`, or `left += right`, which only words its error differently. */
export function pythonAdd(left: JsonValue, right: JsonValue, operator: "+" | "+=" = "+"): Int | JsonFloat {
  const a = toNumber(left);
  const b = toNumber(right);
  if (a === null || b === null) throw unsupported(operator, left, right);
  if (a instanceof JsonFloat || b instanceof JsonFloat) return new JsonFloat(toFloat(a) + toFloat(b));
  return typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a + b)
    ? a + b
    : normalizeInt(BigInt(a) + BigInt(b));
}

/** `left - right`, or `left -= right`. */
export function pythonSubtract(left: JsonValue, right: JsonValue, operator: "-" | "-=" = "-"): Int | JsonFloat {
  const a = toNumber(left);
  const b = toNumber(right);
  if (a === null || b === null) throw unsupported(operator, left, right);
  if (a instanceof JsonFloat || b instanceof JsonFloat) return new JsonFloat(toFloat(a) - toFloat(b));
  return typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a - b)
    ? a - b
    : normalizeInt(BigInt(a) - BigInt(b));
}

/** `left * right` of numbers. Python also repeats texts and lists; nobody here needs the result of that. */
export function pythonMultiply(left: JsonValue, right: JsonValue): Int | JsonFloat {
  const a = toNumber(left);
  const b = toNumber(right);
  if (a === null || b === null) throw unsupported("*", left, right);
  if (a instanceof JsonFloat || b instanceof JsonFloat) return new JsonFloat(toFloat(a) * toFloat(b));
  // The sum turns the -0 of JavaScript, which is no integer of Python, into 0.
  return typeof a === "number" && typeof b === "number" && Number.isSafeInteger(a * b)
    ? a * b + 0
    : normalizeInt(BigInt(a) * BigInt(b));
}

/** `-value` of a number: the int 0 stays 0, the float 0.0 becomes -0.0. */
export function pythonNegate(value: JsonValue): Int | JsonFloat {
  const number = toNumber(value);
  if (number === null) {
    throw new PythonError("TypeError", `bad operand type for unary -: '${pythonTypeName(value)}'`);
  }
  if (number instanceof JsonFloat) return new JsonFloat(-number.value);
  return typeof number === "number" ? 0 - number : -number;
}

/** The int, float or bool as a number; `null` for anything else. */
function toNumber(value: JsonValue): Int | JsonFloat | null {
  if (typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat) return value;
  return typeof value === "boolean" ? Number(value) : null;
}

function toFloat(value: Int | JsonFloat): number {
  if (value instanceof JsonFloat) return value.value;
  const float = Number(value);
  if (Number.isFinite(float)) return float;
  throw new PythonError("OverflowError", "int too large to convert to float");
}

function normalizeInt(value: bigint): Int {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

function unsupported(operator: string, left: JsonValue, right: JsonValue): PythonError {
  const names = `'${pythonTypeName(left)}' and '${pythonTypeName(right)}'`;
  return new PythonError("TypeError", `unsupported operand type(s) for ${operator}: ${names}`);
}
