// The text a data hash is taken of: Python's `str` of the data once dicts have become tuples of pairs sorted by key and
// lists have become tuples. Two values with the same text count as the same state ([] and {} do, 1 and 1.0 do not).

import { JsonFloat, type JsonValue } from "../../python-semantics/json/index.ts";
import { compareCodePoints, pythonRepr, pythonStr, stringRepr } from "../../python-semantics/index.ts";

/** `str(to_hashable(value))`. */
export function hashText(value: JsonValue): string {
  return typeof value === "string" ? pythonStr(value) : recordText(value);
}

/** `repr(to_hashable(value))`: what stands for a record inside the text of all data. */
export function recordText(value: JsonValue): string {
  if (typeof value === "string") return stringRepr(value);
  if (Array.isArray(value)) return tuple(value.map(recordText));
  if (value === null || value instanceof JsonFloat || typeof value !== "object") return pythonRepr(value);
  return tuple(sortedKeys(value).map((key) => `(${stringRepr(key)}, ${recordText(value.get(key)!)})`));
}

const surrogate = /[\ud800-\udfff]/;

/** The keys in the order of Python's `sorted`. */
export function sortedKeys(object: ReadonlyMap<string, unknown>): string[] {
  const keys = [...object.keys()];
  // By UTF-16 unit, which is many times faster and the same unless there are astral characters.
  return keys.some((key) => surrogate.test(key)) ? keys.sort(compareCodePoints) : keys.sort();
}

function tuple(items: readonly string[]): string {
  return items.length === 1 ? `(${items[0]!},)` : `(${items.join(", ")})`;
}
