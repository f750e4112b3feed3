// What dict keys and `unique` compare: one JavaScript value for all Python values that are equal.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { typeError } from "./raise.ts";
import { TracedText } from "./traced-text.ts";
import { type PythonObject, Undefined, type Value } from "./value.ts";

/** Texts are strings, numbers numbers (or bigints), everything else a symbol of its own or the object itself. */
export type HashKey = string | number | bigint | symbol | null | PythonObject;

const undefinedKey = Symbol("undefined");

/** Throws a "TypeError" for lists and dicts, which are unhashable. */
export function hashKey(value: Value): HashKey {
  if (value instanceof TracedText) return value.text;
  if (value instanceof JsonFloat) return numberKey(value.value);
  if (value === null || typeof value === "bigint" || typeof value === "number") return value;
  if (typeof value === "boolean") return Number(value);
  if (value instanceof Undefined) return undefinedKey;
  if (value.typeName === "list" || value.typeName === "dict") throw typeError(`a ${value.typeName} is unhashable`);
  if ("items" in value && Array.isArray(value.items)) return tupleKey(value, value.items as readonly Value[]);
  return value;
}

/** A whole float equals the integer of its value. */
function numberKey(value: number): number | bigint {
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(value) : value;
}

/** Equal tuples share a registered symbol; one that holds objects is a key of its own. */
function tupleKey(tuple: PythonObject, items: readonly Value[]): symbol | PythonObject {
  const parts: string[] = [];
  for (const part of items.map(hashKey)) {
    if (part !== null && typeof part === "object") return tuple;
    parts.push(`${typeof part}:${JSON.stringify(String(part))}`);
  }
  return Symbol.for(parts.join());
}
