import { JsonFloat, type JsonValue } from "./value.ts";

/** A deep copy that shares nothing mutable with the original. */
export function cloneJson<T extends JsonValue>(value: T): T;
export function cloneJson(value: JsonValue): JsonValue {
  if (typeof value !== "object" || value === null || value instanceof JsonFloat) return value;
  if (Array.isArray(value)) return value.map((element) => cloneJson(element));
  const copy = new Map<string, JsonValue>();
  for (const [key, element] of value) copy.set(key, cloneJson(element));
  return copy;
}
