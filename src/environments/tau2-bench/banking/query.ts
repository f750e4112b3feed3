// Queries of the bank's tables, as the tools make and show them. A tool writes its argument into
// the text of a JSON object, so that a quotation mark in it gives a syntax error or adds a
// constraint, as in the reference.

import {
  contains,
  isDict,
  isOrdered,
  itemsOf,
  pythonEquals,
  PythonError,
  pythonStr,
  pythonTypeName,
  typeError,
} from "../../../python-semantics/index.ts";
import { JsonSyntaxError, type JsonObject, type JsonValue, parseJson } from "../../../python-semantics/json/index.ts";
import { asKey } from "../../tables/index.ts";
import type { Database } from "../database.ts";
import { getField, show } from "./python.ts";

/** A record with its id. */
export type Entry = readonly [id: string, record: JsonObject];

/** The records whose field equals the value, as a tool shows them. */
export function queryBy(database: Database, table: string, field: string, value: JsonValue): string {
  return query(database, table, `{"${field}": "${show(value)}"}`);
}

/** All records of a table, as a tool shows them. */
export const queryAll = (database: Database, table: string): string => query(database, table, "{}");

/** True if the text of a query shows records; records that contain the words of an empty result count as none. */
export const hasRecords = (shown: string): boolean =>
  !shown.includes("No records found") && !shown.includes("No results found");

/** The record with an id of any type; `null` if there is none. */
export function recordAt(database: Database, table: string, id: JsonValue): Entry | null {
  const key = asKey(id);
  const record = key === null ? undefined : database.read(table, key);
  return key === null || record === undefined ? null : [key, record];
}

/** Adds a record. False if there is one of that id. */
export function addRecord(database: Database, table: string, id: string, record: JsonObject): boolean {
  if (database.read(table, id) !== undefined) return false;
  database.put(table, id, record);
  return true;
}

/** Answers a query that a tool wrote: the matching records, or the reference's text for a wrong query. */
function query(database: Database, table: string, written: string): string {
  try {
    const constraints = readConstraints(written);
    if (typeof constraints === "string") return constraints;
    return showEntries(table, findRecords(database, table, constraints)) ?? `No records found in '${table}'.`;
  } catch (error) {
    if (error instanceof PythonError) return `Error querying database: ${error.message}`;
    if (error instanceof JsonSyntaxError) return `Error querying database: ${error.pythonMessage}`;
    throw error;
  }
}

/** The list of records that a tool shows; `null` for none. */
export function showEntries(table: string, entries: readonly Entry[]): string | null {
  if (entries.length === 0) return null;
  const lines = [`Found ${entries.length} record(s) in '${table}':\n`];
  for (const [index, [id, record]] of entries.entries()) {
    lines.push(`${index + 1}. Record ID: ${id}`);
    for (const [field, value] of record) lines.push(`   ${field}: ${show(value)}`);
    lines.push("");
  }
  return lines.join("\n");
}

const place = "tau2.domains.banking_knowledge.db_query.query_db()";

/** Keywords that the reference passes itself. */
const taken = ["db", "return_ids"];

/** The constraints of a JSON object, or the reference's text for one that is no JSON. */
function readConstraints(written: string): JsonObject | string {
  let value: JsonValue;
  try {
    value = parseJson(written);
  } catch (error) {
    if (!(error instanceof JsonSyntaxError) || error.pythonType !== "JSONDecodeError") throw error;
    return `Error: Invalid JSON: ${error.pythonMessage}`;
  }
  const constraints = value as JsonObject;
  const twice = taken.find((key) => constraints.has(key));
  if (twice !== undefined) throw typeError(`${place} got multiple values for keyword argument '${twice}'`);
  if (constraints.has("db_name")) throw typeError("query_db() got multiple values for argument 'db_name'");
  return constraints;
}

function findRecords(database: Database, table: string, constraints: JsonObject): Entry[] {
  const limit = getField(constraints, "limit");
  const tests = [...constraints].filter(([key]) => key !== "limit").map(([key, expected]) => readTest(key, expected));
  const found: Entry[] = [];
  for (const entry of database.records(table)) {
    if (!tests.every((matches) => matches(entry[1]))) continue;
    found.push(entry);
    if (limit !== null && isOrdered(">=", found.length, limit)) break;
  }
  return found;
}

type Comparison = (actual: JsonValue, expected: JsonValue) => boolean;

/** Comparisons by the suffix of a constraint; any other suffix tests for equality. */
const comparisons: ReadonlyMap<string, Comparison> = new Map<string, Comparison>([
  ["ne", (actual, expected) => !pythonEquals(actual, expected)],
  ["gt", (actual, expected) => isOrdered(">", actual, expected)],
  ["gte", (actual, expected) => isOrdered(">=", actual, expected)],
  ["lt", (actual, expected) => isOrdered("<", actual, expected)],
  ["lte", (actual, expected) => isOrdered("<=", actual, expected)],
  ["contains", (actual, expected) => actual !== null && isWithin(actual, expected)],
  ["startswith", (actual, expected) => actual !== null && pythonStr(actual).startsWith(pythonStr(expected))],
  ["endswith", (actual, expected) => actual !== null && pythonStr(actual).endsWith(pythonStr(expected))],
  ["in", (actual, expected) => isWithin(expected, actual)],
  ["nin", (actual, expected) => !isWithin(expected, actual)],
]);

/** `item in container` of two JSON values. */
function isWithin(container: JsonValue, item: JsonValue): boolean {
  if (typeof container === "string") {
    if (typeof item === "string") return container.includes(item);
    throw typeError(`'in <string>' requires string as left operand, not ${pythonTypeName(item)}`);
  }
  if (isDict(container)) {
    const key = asKey(item);
    return key !== null && container instanceof Map && container.has(key);
  }
  return contains(itemsOf(container), item);
}

function readTest(key: string, expected: JsonValue): (record: JsonObject) => boolean {
  const at = key.lastIndexOf("__");
  const field = at < 0 ? key : key.slice(0, at);
  const compare = (at < 0 ? undefined : comparisons.get(key.slice(at + 2))) ?? pythonEquals;
  return (record) => {
    try {
      return compare(getField(record, field), expected);
    } catch (error) {
      // A comparison of two types that have no order simply fails.
      if (error instanceof PythonError && ["TypeError", "ValueError"].includes(error.pythonType)) return false;
      throw error;
    }
  };
}
