// Records of single values and of the calculator, which belong to no domain.

import { calculate, hashText, runTool, SharedBase, World } from "#src/environments/tau-bench/index.ts";
import { dumpJson, JsonFloat, type JsonObject, type JsonValue, parseJson } from "#src/python-semantics/json/index.ts";
import { pythonRepr, pythonRound, pythonStr } from "#src/python-semantics/index.ts";

/** Removes the keys of a record that are not compared: its input. */
function without(record: JsonObject, ...keys: readonly string[]): JsonObject {
  return new Map([...record].filter(([key]) => !keys.includes(key)));
}

export function playValue(record: JsonObject): { readonly expected: JsonValue; readonly actual: JsonValue } {
  const value = parseJson(record.get("json") as string);
  const actual: JsonObject = new Map<string, JsonValue>([
    ["dumps", dumpJson(value, { ensureAscii: true })],
    ["str", pythonStr(value)],
    ["hash_text", hashText(value)],
  ]);
  const isNumber = typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat;
  if (isNumber) actual.set("round2", pythonRepr(pythonRound(value, 2)));
  return { expected: without(record, "json", "tags"), actual };
}

export function playCalculation(record: JsonObject): { readonly expected: JsonValue; readonly actual: JsonValue } {
  const nowhere = new World(new SharedBase(new Map()));
  const kwargs: JsonObject = new Map([["expression", record.get("expression")!]]);
  return { expected: record.get("obs")!, actual: runTool(calculate, nowhere, { domain: "retail", kwargs }) };
}
