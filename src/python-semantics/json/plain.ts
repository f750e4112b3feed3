// Between lossless JSON values and plain JavaScript ones, for code that does not care about Python's distinctions
// (configuration, schema validators, user code). Lossy towards plain: integers beyond 2^53 and the int/float difference go.

import { normalInteger } from "../number-text.ts";
import { maxJsonDepth, parseJson } from "./parse-json.ts";
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
 * The plain value of a JSON text as programs in Python write it, which has NaN and Infinity. Throws as `JSON.parse` does, for what
 * Python refuses, too.
 */
export function plainJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    try {
      return toPlain(parseJson(text));
    } catch {
      throw error;
    }
  }
}

/**
 * Reads a plain value: integers up to 2^53 - 1 become ints, every other number a {@link JsonFloat}; `undefined` is left out
 * of objects and null in arrays; what has a `toJSON` (a date) says itself what it is. Values that are lossless already pass.
 * Throws a `TypeError` for anything that JSON cannot hold (functions, symbols, class instances, values that hold themselves)
 * and for values nested deeper than `parseJson` would read; and whatever a getter throws.
 */
export function fromPlain(value: unknown): JsonValue {
  return convert(value, { isStrict: false, maxSize: Infinity, size: 0, holders: [] });
}

/**
 * As `fromPlain`, for a value that code of others made: what Python's JSON has and the standard has not (non-finite numbers,
 * bigints) is refused, and so are values of more than `maxSize` values and characters together.
 */
export function fromForeign(value: unknown, { maxSize }: { readonly maxSize: number }): JsonValue {
  return convert(value, { isStrict: true, maxSize, size: 0, holders: [] });
}

type Conversion = {
  readonly isStrict: boolean;
  readonly maxSize: number;
  size: number;
  /** The objects around the value, the outermost first. */
  readonly holders: object[];
};

function convert(value: unknown, conversion: Conversion): JsonValue {
  grow(conversion, 1);
  switch (typeof value) {
    case "string":
      grow(conversion, value.length);
      return value;
    case "boolean":
      return value;
    case "number":
      if (conversion.isStrict && !Number.isFinite(value)) throw misfit(`${value} has no JSON form`);
      return Number.isSafeInteger(value) ? value + 0 : new JsonFloat(value);
    case "bigint":
      if (conversion.isStrict) throw misfit("a bigint has no JSON form");
      return normalInteger(value);
    case "undefined":
      return null;
    case "object":
      return value === null ? null : convertObject(value, conversion);
    default:
      throw misfit(`a ${typeof value} has no JSON form`);
  }
}

function convertObject(value: object, conversion: Conversion): JsonValue {
  if (value instanceof JsonFloat) {
    if (conversion.isStrict && !Number.isFinite(value.value)) throw misfit(`${value.value} has no JSON form`);
    return value;
  }
  const { holders } = conversion;
  if (holders.length >= maxJsonDepth) throw misfit(`it is nested deeper than ${maxJsonDepth} levels`);
  if (holders.includes(value)) throw misfit("it holds itself");
  holders.push(value);
  const converted = convertHolder(value, conversion);
  holders.pop();
  return converted;
}

function convertHolder(value: object, conversion: Conversion): JsonValue {
  if (Array.isArray(value)) {
    grow(conversion, value.length);
    return Array.from(value, (element: unknown) => convert(element, conversion));
  }
  const entries = plainEntries(value);
  if (entries === null) return convert((value as { toJSON(): unknown }).toJSON(), conversion);
  const object: JsonObject = new Map();
  for (const [key, element] of entries) {
    if (typeof key !== "string") throw misfit("a key is not a string");
    grow(conversion, key.length);
    if (element !== undefined) object.set(key, convert(element, conversion));
  }
  return object;
}

/** `null`: it says itself what it is. */
function plainEntries(value: object): Iterable<readonly [unknown, unknown]> | null {
  if (value instanceof Map) return value as Map<unknown, unknown>;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return Object.entries(value);
  if ("toJSON" in value && typeof value.toJSON === "function") return null;
  throw misfit(`an instance of ${value.constructor?.name ?? "object"} has no JSON form`);
}

function grow(conversion: Conversion, by: number): void {
  conversion.size += by;
  if (conversion.size > conversion.maxSize)
    throw misfit(`it is larger than ${conversion.maxSize} values and characters`);
}

function misfit(problem: string): TypeError {
  return new TypeError(`Cannot read a plain value as JSON: ${problem}.`);
}
