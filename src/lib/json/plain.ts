// Between lossless JSON values and plain JavaScript ones, for code that does not care about Python's distinctions
// (configuration, schema validators, user code). Lossy towards plain: integers beyond 2^53 and the int/float difference go.

import { maxJsonDepth } from "./parse-json.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "./value.ts";

/**
 * Objects become objects without a prototype (so a key `__proto__` is only a key), floats and big integers numbers.
 * Keys that look like array indexes move to the front, as JavaScript has it.
 */
export function toPlain(value: JsonValue): unknown {
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(toPlain);
  if (!(value instanceof Map)) return value;
  const plain: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [key, element] of value) plain[key] = toPlain(element);
  return plain;
}

/**
 * Reads a plain value: integers up to 2^53 - 1 become ints, every other number a {@link JsonFloat}; `undefined` is left out
 * of objects and null in arrays. Values that are lossless already pass. Throws a `TypeError` for anything that JSON cannot
 * hold (functions, symbols, class instances) and for values nested deeper than `parseJson` would read (cycles, too).
 */
export function fromPlain(value: unknown): JsonValue {
  return convert(value, 0);
}

function convert(value: unknown, depth: number): JsonValue {
  if (depth > maxJsonDepth) {
    throw new TypeError(
      `Cannot read a plain value as JSON: it is nested deeper than ${maxJsonDepth} levels, or holds itself.`,
    );
  }
  switch (typeof value) {
    case "string":
    case "boolean":
      return value;
    case "number":
      return Number.isSafeInteger(value) ? value + 0 : new JsonFloat(value);
    case "bigint":
      return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
    case "undefined":
      return null;
    case "object":
      return convertObject(value, depth);
    default:
      throw new TypeError(`Cannot read a plain value as JSON: a ${typeof value} has no JSON form.`);
  }
}

function convertObject(value: object | null, depth: number): JsonValue {
  if (value === null) return null;
  if (value instanceof JsonFloat) return value;
  if (Array.isArray(value)) return value.map((element: unknown) => convert(element, depth + 1));
  const object: JsonObject = new Map();
  for (const [key, element] of plainEntries(value)) {
    if (typeof key !== "string") throw new TypeError("Cannot read a plain value as JSON: a key is not a string.");
    if (element !== undefined) object.set(key, convert(element, depth + 1));
  }
  return object;
}

function plainEntries(value: object): Iterable<readonly [unknown, unknown]> {
  if (value instanceof Map) return value as Map<unknown, unknown>;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return Object.entries(value);
  const name = value.constructor?.name ?? "object";
  throw new TypeError(`Cannot read a plain value as JSON: an instance of ${name} has no JSON form.`);
}
