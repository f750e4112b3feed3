// The one type that a parameter's JSON Schema stands for, as formats with untyped values guess it.

import { JsonFloat, type JsonValue } from "../lib/json/index.ts";
import { isTruthy } from "./python/truth.ts";

/** A type name; `null` when the schema says nothing. Unions give their common type, or "string". */
export function inferSchemaType(schema: JsonValue | undefined): string | null {
  if (!(schema instanceof Map)) return null;
  const direct = directType(schema.get("type"));
  if (direct !== null) return direct;
  if (schema.has("anyOf") || schema.has("oneOf")) {
    const union = unionType(
      isTruthy(schema.get("anyOf") ?? null) ? schema.get("anyOf")! : (schema.get("oneOf") ?? null),
    );
    if (union !== null) return union;
  }
  const values = schema.get("enum");
  if (Array.isArray(values)) {
    const types = new Set(values.map(valueType));
    return types.size === 1 ? [...types][0]! : "string";
  }
  const parts = schema.get("allOf");
  if (Array.isArray(parts))
    return parts.map(inferSchemaType).find((type) => type !== null && type !== "string") ?? "string";
  if (schema.has("properties")) return "object";
  return schema.has("items") ? "array" : null;
}

function directType(type: JsonValue | undefined): string | null {
  if (typeof type === "string") return type;
  if (!Array.isArray(type) || type.length === 0) return null;
  const first = type.find((name) => name !== "null");
  return first === undefined ? "string" : typeof first === "string" ? first : "unknown";
}

function unionType(schemas: JsonValue): string | null {
  if (!Array.isArray(schemas)) return null;
  const types = schemas.map(inferSchemaType).filter((type) => type !== null && type !== "");
  if (types.length === 0) return null;
  return types.includes("string") ? "string" : types[0]!;
}

/** The JSON Schema type of a value. */
export function valueType(value: JsonValue): string {
  if (value === null) return "null";
  if (value instanceof JsonFloat) return "number";
  if (Array.isArray(value)) return "array";
  if (value instanceof Map) return "object";
  if (typeof value === "boolean") return "boolean";
  return typeof value === "string" ? "string" : "integer";
}
