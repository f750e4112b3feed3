// Python's names of types, which its error texts show.

import { JsonFloat, type JsonValue } from "./json/value.ts";

export type PythonTypeName = "NoneType" | "bool" | "int" | "float" | "str" | "list" | "dict";

/** `type(value).__name__`, as Python's error texts show it. */
export function pythonTypeName(value: JsonValue): PythonTypeName {
  if (value === null) return "NoneType";
  if (value instanceof JsonFloat) return "float";
  if (Array.isArray(value)) return "list";
  if (value instanceof Map) return "dict";
  switch (typeof value) {
    case "boolean":
      return "bool";
    case "string":
      return "str";
    default:
      return "int";
  }
}
