// What the domains do with values as Python does: keys that must be there, sums of floats, membership, order.

import {
  compareCodePoints,
  isOrEquals,
  PythonError,
  pythonLower,
  pythonTypeName,
  roundFloat,
} from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { asKey, attributeError, countIn, iterate } from "../tables/index.ts";
import type { Database } from "./database.ts";

export function valueError(message: string): PythonError {
  return new PythonError("ValueError", message);
}

/** Whether a table has a record of a key that may be anything. Throws a `PythonError` for a key that no dict takes. */
export function hasRecord(database: Database, table: string, id: JsonValue): id is string {
  // The table first: a database that lacks it raises whatever the key is.
  const records = database.base.table(table);
  const key = asKey(id);
  return key !== null && (records.has(key) || database.own(table).has(key));
}

/** The id of a record that must be there; raises `ValueError` with `message` otherwise. */
export function requireId(database: Database, table: string, id: JsonValue, message: string): string {
  if (hasRecord(database, table, id)) return id;
  throw valueError(message);
}

/** A field that its model declares a float or an integer. */
export function numberOf(record: JsonObject, key: string): number {
  const value = record.get(key);
  if (value instanceof JsonFloat) return value.value;
  if (typeof value === "number" || typeof value === "bigint") return Number(value);
  throw new PythonError("TypeError", `'${key}' is no number`);
}

/** `record[key] += amount`, rounded to cents. */
export function addRounded(record: JsonObject, key: string, amount: number): void {
  record.set(key, new JsonFloat(roundFloat(numberOf(record, key) + amount, 2)));
}

/** `value.lower()`. */
export function lower(value: JsonValue): string {
  if (typeof value === "string") return pythonLower(value);
  throw attributeError(value, "lower");
}

/** `value.count(element)` of a list or a text. */
export function countOf(value: JsonValue, element: JsonValue): number {
  if (Array.isArray(value)) return countIn(value, element);
  if (typeof value !== "string") throw attributeError(value, "count");
  if (typeof element !== "string") {
    throw new PythonError("TypeError", `must be str, not ${pythonTypeName(element)}`);
  }
  return element === "" ? value.length + 1 : value.split(element).length - 1;
}

/** `element in set`, for one of texts. */
export function isOneOf(element: JsonValue, values: readonly string[]): boolean {
  const key = asKey(element);
  return key !== null && values.some((value) => isOrEquals(value, key));
}

/** `sorted(value)` of what holds texts alone. */
export function sortedStrings(value: JsonValue): string[] {
  return [...(iterate(value) as readonly string[])].sort(compareCodePoints);
}

/** A text that must be one; `name` is the method that Python looks for. */
export function requireText(value: JsonValue, name: string): string {
  if (typeof value === "string") return value;
  throw attributeError(value, name);
}

/** `f"{value:.2f}"`. */
export function fixed(value: number, digits: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value < 0 ? "-inf" : "inf";
  if (Math.abs(value) >= 1e21) return `${BigInt(value)}.${"0".repeat(digits)}`;
  return roundFloat(value, digits).toFixed(digits);
}
