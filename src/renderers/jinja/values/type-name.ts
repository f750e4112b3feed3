import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { TracedText } from "./traced-text.ts";
import type { Value } from "./value.ts";

/** `type(value).__name__`. */
export function typeNameOf(value: Value): string {
  if (value === null) return "NoneType";
  if (value instanceof TracedText) return value.isMarkup ? "Markup" : "str";
  if (value instanceof JsonFloat) return "float";
  if (typeof value === "object") return value.typeName;
  return typeof value === "boolean" ? "bool" : "int";
}
