// Python's `<` on JSON values: numbers of any size exactly, texts by code point, lists element by element; anything else,
// and any mix, is a TypeError.

import { JsonFloat, type JsonValue } from "./json/value.ts";
import { compareCodePoints } from "./compare.ts";
import { isOrEquals } from "./equal.ts";
import { PythonError } from "./python-error.ts";
import { pythonTypeName } from "./type-name.ts";

/** `left < right`. Throws a `TypeError` (as `PythonError`) for types that have no order. */
export function pythonLess(left: JsonValue, right: JsonValue): boolean {
  const a = numberOf(left);
  const b = numberOf(right);
  if (a !== null && b !== null) return a < b;
  if (typeof left === "string" && typeof right === "string") return compareCodePoints(left, right) < 0;
  if (Array.isArray(left) && Array.isArray(right)) {
    const at = left.findIndex((element, index) => index >= right.length || !isOrEquals(element, right[index]!));
    if (at === -1 || at >= right.length) return left.length < right.length;
    return pythonLess(left[at]!, right[at]!);
  }
  const names = `'${pythonTypeName(left)}' and '${pythonTypeName(right)}'`;
  throw new PythonError("TypeError", `'<' not supported between instances of ${names}`);
}

/** Comparable exactly, across number and bigint; `null` for what is no number. */
function numberOf(value: JsonValue): number | bigint | null {
  if (typeof value === "number" || typeof value === "bigint") return value;
  if (value instanceof JsonFloat) return value.value;
  return typeof value === "boolean" ? Number(value) : null;
}
