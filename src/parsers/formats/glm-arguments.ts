// Arguments of GLM's calls: key and value tags. A value is read as JSON, as JSON with escapes, as a Python literal, or as
// it stands; where the schema declares a text it becomes one again.

import { type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import {
  dumpPython,
  evaluateLiteral,
  isDict,
  isList,
  literalErrors,
  PythonError,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  pythonText,
  type PythonValue,
  space,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { inferSchemaType } from "../schema-type.ts";
import { type ToolTable, toolProperties } from "../tool-table.ts";

export const argumentMarkers = ["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"] as const;

export function readGlmArguments(text: string, name: string, table: ToolTable): ReadonlyMap<string, PythonValue> {
  const properties = toolProperties(table, name);
  const result = new Map<string, PythonValue>();
  for (const [rawKey, rawValue] of pairs(text)) {
    const key = pythonStrip(rawKey);
    const type = inferSchemaType(properties.get(key));
    const value = readValue(pythonStrip(rawValue), type);
    result.set(key, type === "string" && typeof value !== "string" ? asText(value) : value);
  }
  return result;
}

/** A key reaches to the first closing tag that a value follows. */
function* pairs(text: string): Generator<readonly [key: string, value: string]> {
  const [keyOpening, keyClosing, , valueClosing] = argumentMarkers;
  const middle = new RegExp(`${keyClosing}(?:\\\\n|${space})*<arg_value>`, "gu");
  for (let start = text.indexOf(keyOpening); start !== -1;) {
    const keyStart = start + keyOpening.length;
    middle.lastIndex = keyStart;
    const match = middle.exec(text);
    const end = match === null ? -1 : text.indexOf(valueClosing, middle.lastIndex);
    if (match === null || end === -1) return;
    yield [text.slice(keyStart, match.index), text.slice(middle.lastIndex, end)];
    start = text.indexOf(keyOpening, end + valueClosing.length);
  }
}

/** What to read a value as, in turn; what Python refuses in one of these classes goes to the next. */
const readings: readonly (readonly [refusals: readonly string[], read: (text: string) => PythonValue])[] = [
  [["JSONDecodeError", "ValueError"], parseJson],
  [["JSONDecodeError", "ValueError"], parseEscapedJson],
  [literalErrors, evaluateLiteral],
];

function readValue(text: string, type: string | null): PythonValue {
  for (const [refusals, read] of readings) {
    const value = unlessRaised(refusals, () => read(text));
    if (value === undefined) continue;
    const isQuotedNumber = type === "number" && typeof value === "string" && read !== evaluateLiteral;
    return isQuotedNumber ? numberOr(value) : value;
  }
  return text;
}

/** The value as the body of a JSON text that holds JSON; what breaks out of that text is read as the reference reads it. */
function parseEscapedJson(text: string): JsonValue {
  const wrapped = parseJson(`{"tmp": "${text}"}`);
  const inner = wrapped instanceof Map ? wrapped.get("tmp") : undefined;
  if (typeof inner !== "string") throw new PythonError("TypeError", "JSON can be read from a text only");
  return parseJson(inner);
}

function numberOr(text: string): PythonValue {
  const isFloat = text.includes(".") || pythonLower(text).includes("e");
  const number = unlessRaised(null, () => (isFloat ? pythonFloat(text) : pythonInt(text)));
  return number === undefined ? text : number;
}

function asText(value: PythonValue): string {
  return isDict(value) || isList(value) ? dumpPython(value) : pythonText(value);
}
