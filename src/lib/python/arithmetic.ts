// Python's arithmetic on numbers that came from JSON: int with int stays int and exact, a float makes a float, a bool
// counts as 0 or 1. Anything else is the `TypeError` Python raises.

import { JsonFloat, type JsonValue } from "../json/value.ts";
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

/** `left < right`; numbers of any size compare exactly. */
export function pythonLess(left: JsonValue, right: JsonValue): boolean {
  const a = toNumber(left);
  const b = toNumber(right);
  if (a === null || b === null) {
    throw new PythonError(
      "TypeError",
      `'<' not supported between instances of '${pythonTypeName(left)}' and '${pythonTypeName(right)}'`,
    );
  }
  return comparable(a) < comparable(b);
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

function comparable(value: Int | JsonFloat): Int {
  return value instanceof JsonFloat ? value.value : value;
}

function normalizeInt(value: bigint): Int {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

function unsupported(operator: string, left: JsonValue, right: JsonValue): PythonError {
  const names = `'${pythonTypeName(left)}' and '${pythonTypeName(right)}'`;
  return new PythonError("TypeError", `unsupported operand type(s) for ${operator}: ${names}`);
}
