import { JsonFloat, type JsonValue } from "../json/index.ts";

/** Python's `bool(value)`: empty texts, lists and objects, zeros and null are false. */
export function isTruthy(value: JsonValue): boolean {
  if (value instanceof JsonFloat) return value.value !== 0;
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Map) return value.size > 0;
  return Boolean(value);
}
