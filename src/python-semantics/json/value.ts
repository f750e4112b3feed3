// JSON values without loss: integers and floats are distinct types, integers are unbounded, objects
// keep the order of their keys. Observations, prompts and data hashes depend on all three, and
// `JSON.parse` loses all three. Serialization is in `parse-json.ts` and `dump-json.ts`.

/**
 * A JSON number written with a decimal point or an exponent, distinct from the integer of the same
 * value (`100.0` is not `100`).
 */
export class JsonFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/**
 * A JSON value. Integers are a `number` while safe (magnitude at most 2^53 - 1), a `bigint` beyond;
 * every other number, including the non-finite ones that Python accepts, is a {@link JsonFloat}.
 * Strings may contain lone surrogates.
 */
export type JsonValue = null | boolean | number | bigint | JsonFloat | string | JsonValue[] | JsonObject;

/** A JSON object in the order of its keys; `__proto__` and digits are ordinary keys. */
export type JsonObject = Map<string, JsonValue>;

export type Int = number | bigint;
export type PythonNumber = Int | JsonFloat;

/** An int, a float, or a bool as its int; `null` for anything else. */
export function numberOf(value: unknown): PythonNumber | null {
  if (typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat) return value;
  return typeof value === "boolean" ? Number(value) : null;
}

/** Python's names for the types of JSON. */
type JsonTypeName = "NoneType" | "bool" | "int" | "float" | "str" | "list" | "dict";

/**
 * `type(value).__name__`, as in Python's error messages; a value outside JSON provides its own type
 * name.
 */
export function pythonTypeName(value: JsonValue): JsonTypeName;
export function pythonTypeName(value: Typed): string;
export function pythonTypeName(value: Typed): string {
  if (value === null) return "NoneType";
  if (typeof value === "object") {
    if (value instanceof JsonFloat) return "float";
    if ("typeName" in value) return value.typeName;
    return value instanceof Map ? "dict" : "list";
  }
  return typeof value === "boolean" ? "bool" : typeof value === "string" ? "str" : "int";
}

type Typed =
  | Exclude<JsonValue, object>
  | JsonFloat
  | readonly unknown[]
  | ReadonlyMap<string, unknown>
  | { readonly typeName: string };

/** A deep copy that shares nothing mutable with the original. */
export function cloneJson<T extends JsonValue>(value: T): T;
export function cloneJson(value: JsonValue): JsonValue {
  if (typeof value !== "object" || value === null || value instanceof JsonFloat) return value;
  if (Array.isArray(value)) return value.map((element) => cloneJson(element));
  const copy = new Map<string, JsonValue>();
  for (const [key, element] of value) copy.set(key, cloneJson(element));
  return copy;
}

// Equality of values as JSON, to compare recomputed values with stored ones.

/**
 * Compares data deeply: records, maps, lists, typed arrays and plain values. As in JSON, a missing
 * field equals one that is `undefined`, a map equals a record with the same entries, and a float is
 * not an integer. Between two maps the order of keys matters, because a model reads them in that
 * order.
 */
export function isSameValue(left: unknown, right: unknown): boolean {
  if (Object.is(left, right)) return true;
  if (isFloat(left) && isFloat(right)) return Object.is(floatOf(left), floatOf(right));
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return false;
  if (left instanceof JsonFloat || right instanceof JsonFloat) return false;
  if (isList(left) || isList(right)) {
    if (!isList(left) || !isList(right) || left.length !== right.length) return false;
    for (let index = 0; index < left.length; index++) if (!isSameValue(left[index], right[index])) return false;
    return true;
  }
  const [one, other] = [entriesOf(left), entriesOf(right)];
  if (!(left instanceof Map && right instanceof Map)) for (const entries of [one, other]) entries.sort(byKey);
  return (
    one.length === other.length &&
    one.every(([key, value], index) => key === other[index]?.[0] && isSameValue(value, other[index]?.[1]))
  );
}

type List = readonly unknown[] | Uint32Array | Float32Array;

function isList(value: object): value is List {
  return Array.isArray(value) || value instanceof Uint32Array || value instanceof Float32Array;
}

/** Numbers other than safe integers are written as floats. */
function isFloat(value: unknown): value is number | JsonFloat {
  return value instanceof JsonFloat || (typeof value === "number" && !Number.isSafeInteger(value));
}

function floatOf(value: number | JsonFloat): number {
  return value instanceof JsonFloat ? value.value : value;
}

function byKey([left]: [unknown, unknown], [right]: [unknown, unknown]): number {
  return String(left) < String(right) ? -1 : 1;
}

function entriesOf(value: object): [unknown, unknown][] {
  const entries: [unknown, unknown][] = value instanceof Map ? [...value] : Object.entries(value);
  return entries.filter(([, entry]) => entry !== undefined);
}
