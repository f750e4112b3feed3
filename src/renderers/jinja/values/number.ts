import { JsonFloat } from "../../../python-semantics/json/index.ts";
import type { Integer, Value } from "./value.ts";

/** An int, a float, or a bool as the int it is; `null` for anything else. */
export function numberOf(value: Value): Integer | JsonFloat | null {
  if (typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat) return value;
  return typeof value === "boolean" ? Number(value) : null;
}
