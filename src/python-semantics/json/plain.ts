// Converts between lossless JSON values and plain JavaScript ones, for code that ignores Python's
// distinctions (configuration, schema validators, user code). The conversion to plain values is
// lossy: integers beyond 2^53 lose precision, and ints and floats become equal.

import { normalInteger } from "../number-text.ts";
import { maxJsonDepth, parseJson } from "./parse-json.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "./value.ts";

/**
 * Objects become objects without a prototype (so a key `__proto__` is an ordinary key), floats and
 * big integers become numbers. Keys that look like array indexes move to the front, as in
 * JavaScript.
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
 * The plain value of a JSON text as written by Python programs, which may contain NaN and Infinity.
 * Throws like `JSON.parse`, also for texts that Python rejects.
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
 * Converts a plain value: integers up to 2^53 - 1 become ints, every other number a {@link
 * JsonFloat}; `undefined` is omitted from objects and becomes null in arrays; a value with `toJSON`
 * (a date) is converted by it. Values that are already lossless pass unchanged. Throws a
 * `TypeError` for values that JSON cannot represent (functions, symbols, class instances, cyclic
 * values) and for nesting deeper than `parseJson` accepts; errors of getters pass through.
 */
export function fromPlain(value: unknown): JsonValue {
  return convert(value, { isStrict: false, maxSize: Infinity, size: 0, holders: [] });
}

/**
 * Converts a plain value from external code, like `fromPlain`, but rejects values that only
 * Python's JSON can represent (non-finite numbers, bigints), and those with more than `maxSize`
 * values and characters in total.
 */
export function fromForeign(value: unknown, { maxSize }: { readonly maxSize: number }): JsonValue {
  return convert(value, { isStrict: true, maxSize, size: 0, holders: [] });
}

type Conversion = {
  readonly isStrict: boolean;
  readonly maxSize: number;
  size: number;
  /** The objects around the value, outermost first. */
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

/** `null` if the value converts itself, by a `toJSON` method. */
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
