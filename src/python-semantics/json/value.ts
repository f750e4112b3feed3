// JSON values without loss: integers and floats stay two types, integers are unbounded, objects keep the order
// of their keys. Observations, prompts and data hashes depend on all three, and `JSON.parse` loses all three.
// Not a serializer: see `parse-json.ts` and `dump-json.ts`.

/** A JSON number written with a point or an exponent, kept apart from the integer of the same value (`100.0` is not `100`). */
export class JsonFloat {
  readonly value: number;
  constructor(value: number) {
    this.value = value;
  }
}

/**
 * A JSON value. Integers are a `number` while safe (magnitude at most 2^53 - 1), a `bigint` beyond; every other
 * number, the non-finite ones Python reads included, is a {@link JsonFloat}. Strings may hold lone surrogates.
 */
export type JsonValue = null | boolean | number | bigint | JsonFloat | string | JsonValue[] | JsonObject;

/** A JSON object in the order of its keys; `__proto__` and digits are ordinary keys. */
export type JsonObject = Map<string, JsonValue>;

/** Python's names of the types that JSON has. */
type JsonTypeName = "NoneType" | "bool" | "int" | "float" | "str" | "list" | "dict";

/** `type(value).__name__`, as Python's error texts show it; what is no JSON names its type itself. */
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
