// Python's `==` on JSON values: deep, `1 == 1.0 == True`, dicts without order, and never an error.

import { JsonFloat, type JsonObject, type JsonValue } from "./json/value.ts";

/** `left == right`. NaN equals nothing, but a container equals itself and one that holds the same NaN object. */
export function pythonEquals(left: JsonValue, right: JsonValue): boolean {
  if (typeof left === "string" || typeof right === "string" || left === null || right === null) return left === right;
  if (Array.isArray(left)) return Array.isArray(right) && sameItems(left, right);
  if (left instanceof Map) return right instanceof Map && sameEntries(left, right);
  if (Array.isArray(right) || right instanceof Map) return false;
  // oxlint-disable-next-line eqeqeq -- number, bigint: JavaScript's loose equality is exact across the two, as Python's is.
  return comparable(left) == comparable(right);
}

/** What `in`, `list.count` and `list.index` ask: the same object, or equal to it. */
export function isOrEquals(left: JsonValue, right: JsonValue): boolean {
  return left === right || pythonEquals(left, right);
}

function comparable(value: boolean | number | bigint | JsonFloat): number | bigint {
  if (value instanceof JsonFloat) return value.value;
  return typeof value === "boolean" ? Number(value) : value;
}

function sameItems(left: readonly JsonValue[], right: readonly JsonValue[]): boolean {
  return (
    left === right || (left.length === right.length && left.every((item, index) => isOrEquals(item, right[index]!)))
  );
}

function sameEntries(left: JsonObject, right: JsonObject): boolean {
  if (left === right) return true;
  if (left.size !== right.size) return false;
  for (const [key, value] of left) {
    const other = right.get(key);
    if (other === undefined || !isOrEquals(value, other)) return false;
  }
  return true;
}
