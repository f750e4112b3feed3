// The one type that a parameter's JSON Schema stands for, as formats with untyped values guess it.

import { JsonFloat, type JsonValue } from "../python-semantics/json/index.ts";
import { isTruthy } from "../python-semantics/index.ts";

type Schema = ReadonlyMap<string, JsonValue>;

/** What a schema says of its type, the most telling first; `null`: nothing there. */
const hints: readonly ((schema: Schema) => string | null)[] = [
  (schema) => writtenType(schema.get("type")),
  (schema) => choicesType([schema.get("anyOf"), schema.get("oneOf")].find((choices) => isTruthy(choices ?? null))),
  (schema) => ifList(schema.get("enum"), (values) => commonType(values.map(valueType))),
  (schema) => ifList(schema.get("allOf"), (parts) => typesOf(parts).find((type) => type !== "string") ?? "string"),
  (schema) => (schema.has("properties") ? "object" : null),
  (schema) => (schema.has("items") ? "array" : null),
];

/** A type name; `null` when the schema says nothing. Unions give their common type, or "string". */
export function inferSchemaType(schema: JsonValue | undefined): string | null {
  if (!(schema instanceof Map)) return null;
  for (const hint of hints) {
    const type = hint(schema);
    if (type !== null) return type;
  }
  return null;
}

function ifList(value: JsonValue | undefined, read: (items: readonly JsonValue[]) => string): string | null {
  return Array.isArray(value) ? read(value) : null;
}

const commonType = (types: readonly string[]): string => (new Set(types).size === 1 ? types[0]! : "string");

function typesOf(schemas: readonly JsonValue[]): readonly string[] {
  return schemas.flatMap((schema) => inferSchemaType(schema) ?? []).filter((type) => type !== "");
}

function writtenType(type: JsonValue | undefined): string | null {
  if (typeof type === "string") return type;
  if (!Array.isArray(type) || type.length === 0) return null;
  const first = type.find((name) => name !== "null");
  return first === undefined ? "string" : typeof first === "string" ? first : "unknown";
}

function choicesType(choices: JsonValue | undefined): string | null {
  const types = Array.isArray(choices) ? typesOf(choices) : [];
  return types.includes("string") ? "string" : (types[0] ?? null);
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
