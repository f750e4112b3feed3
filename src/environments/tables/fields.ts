// Reads records and arguments as Python code does: a missing value or a wrong type raises Python's
// error.

import {
  compareCodePoints,
  floatRepr,
  isOrEquals,
  PythonError,
  pythonLower,
  pythonRepr,
  pythonTypeName,
  roundFloat,
  stringRepr,
} from "../../python-semantics/index.ts";
import { evaluateExpression } from "../../python-semantics/evaluate.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";

/** `record[key]` of a dict. */
export function field(record: JsonObject, key: string): JsonValue {
  const value = record.get(key);
  if (value === undefined) throw new PythonError("KeyError", stringRepr(key));
  return value;
}

/** `value[key]` of any value. */
export function subscript(value: JsonValue, key: string): JsonValue {
  if (value instanceof Map) return field(value, key);
  if (Array.isArray(value)) throw new PythonError("TypeError", "list indices must be integers or slices, not str");
  if (typeof value === "string") throw new PythonError("TypeError", "string indices must be integers, not 'str'");
  throw new PythonError("TypeError", `'${pythonTypeName(value)}' object is not subscriptable`);
}

/** `record[key]` of a dict, with a key of any type. */
export function fieldAt(record: JsonObject, key: JsonValue): JsonValue {
  const name = asKey(key);
  const value = name === null ? undefined : record.get(name);
  if (value === undefined) throw new PythonError("KeyError", pythonRepr(key));
  return value;
}

/** Reads a field whose type is guaranteed by the shape of the tables (the `Shape`s of the domain). */
function typedField<Type extends JsonValue>(is: (value: JsonValue) => value is Type, type: string) {
  return (record: JsonObject, key: string): Type => {
    const value = field(record, key);
    if (is(value)) return value;
    throw new PythonError("TypeError", `'${key}' is no ${type}`);
  };
}

const isObject = (value: JsonValue): value is JsonObject => value instanceof Map;
const isList = (value: JsonValue): value is JsonValue[] => Array.isArray(value);

export const textField = typedField((value) => typeof value === "string", "str");
export const objectField = typedField(isObject, "dict");
export const listField = typedField(isList, "list");
export const objectsField = typedField(
  (value): value is JsonObject[] => isList(value) && value.every(isObject),
  "list of dicts",
);

/**
 * The argument as a key of a dict (`key in dict`): a key that no string can equal is simply not
 * found.
 */
export function asKey(value: JsonValue): string | null {
  if (Array.isArray(value) || value instanceof Map) {
    throw new PythonError("TypeError", `unhashable type: '${pythonTypeName(value)}'`);
  }
  return typeof value === "string" ? value : null;
}

/** `dict.get(key)` of a dict of dicts, with a key of any type; `null` if no dict has that key. */
export function entryAt(dict: ReadonlyMap<string, JsonValue>, key: JsonValue): JsonObject | null {
  const name = asKey(key);
  const value = name === null ? undefined : dict.get(name);
  return value instanceof Map ? value : null;
}

/** `for x in value`: a list's elements, a dict's keys, a string's characters. */
export function iterate(value: JsonValue): readonly JsonValue[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Map) return [...value.keys()];
  if (typeof value === "string") return Array.from(value);
  throw new PythonError("TypeError", `'${pythonTypeName(value)}' object is not iterable`);
}

/** `len(value)`. */
export function lengthOf(value: JsonValue): number {
  if (Array.isArray(value)) return value.length;
  if (value instanceof Map) return value.size;
  if (typeof value === "string") return Array.from(value).length;
  throw new PythonError("TypeError", `object of type '${pythonTypeName(value)}' has no len()`);
}

/** `list.count(element)`. */
function countIn(list: readonly JsonValue[], element: JsonValue): number {
  return list.reduce<number>((count, other) => count + (isOrEquals(other, element) ? 1 : 0), 0);
}

/** `value.count(element)` of a list or a string. */
export function countOf(value: JsonValue, element: JsonValue): number {
  if (Array.isArray(value)) return countIn(value, element);
  if (typeof value !== "string") throw attributeError(value, "count");
  if (typeof element !== "string") {
    throw new PythonError("TypeError", `must be str, not ${pythonTypeName(element)}`);
  }
  return element === "" ? value.length + 1 : value.split(element).length - 1;
}

/** `sorted(value)` of a value that contains only strings. */
export function sortedStrings(value: JsonValue): string[] {
  return [...(iterate(value) as readonly string[])].sort(compareCodePoints);
}

/** `value.lower()`. */
export function lower(value: JsonValue): string {
  if (typeof value === "string") return pythonLower(value);
  throw attributeError(value, "lower");
}

/** The error of `value.name` on a value whose type lacks it. */
export function attributeError(value: JsonValue, name: string): PythonError {
  return new PythonError("AttributeError", `'${pythonTypeName(value)}' object has no attribute '${name}'`);
}

// The calculator of both benchmarks: arithmetic that the references pass to Python's `eval` after
// checking every element against an alphabet.

const alphabet = "0123456789+-*/(). ";

/**
 * The result as text, a float with at most two decimals; `null` for a character outside of the
 * alphabet. Bounded, unlike Python: see `IntegerBudget` of the evaluator for the result of
 * `9**9**9`. Throws a `PythonError` where Python raises.
 */
export function calculated(expression: JsonValue): string | null {
  for (const element of iterate(expression)) {
    if (typeof element !== "string") {
      const type = pythonTypeName(element);
      throw new PythonError("TypeError", `'in <string>' requires string as left operand, not ${type}`);
    }
    if (!alphabet.includes(element)) return null;
  }
  // A list or dict of such strings passes the check above.
  if (typeof expression !== "string") {
    throw new PythonError("TypeError", "eval() arg 1 must be a string, bytes or code object");
  }
  return floatRepr(roundFloat(evaluateExpression(expression), 2));
}
