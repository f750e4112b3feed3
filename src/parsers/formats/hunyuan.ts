// Tool calls of Hunyuan (Hy3): calls in a section, each with the name and with key and value tags.
// A value is read as the first of its declared types that it fits.

import { dumpJson, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import {
  PythonError,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { argumentPairs, keyOpening } from "./argument-tags.ts";

const section = "<tool_calls>";
const opening = "<tool_call>";
const closing = "</tool_call>";
const separator = "<tool_sep>";

export const hunyuan = createToolCallParser({
  name: "hunyuan",
  markers: [
    section,
    "</tool_calls>",
    opening,
    closing,
    separator,
    keyOpening,
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
  ],
  hints: { nesting: { [opening]: closing, "<arg_value>": "</arg_value>" } },
  opening: section,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    for (const { name, rest, source } of readCalls(text, scan)) {
      if (!scan.isCallable(name, source)) continue;
      const parameters = new Map<string, PythonValue>();
      for (const [rawKey, value] of argumentPairs(rest, "")) {
        const key = pythonStrip(rawKey);
        parameters.set(key, readValue(value, declaredTypes(name, key, scan)));
      }
      scan.add([scan.call(name, dumpJson(parameters))]);
    }
    return pythonStrip(text.slice(0, start));
  },
});

type Call = { readonly name: string; readonly rest: string; readonly source: string };

/** The name extends to the separator, to the first argument or to the end of the call. */
function* readCalls(text: string, scan: ToolCallScan): Generator<Call> {
  for (const { body } of scan.blocks(text, opening, closing)) {
    const places = [separator, keyOpening].map((mark) => body.indexOf(mark)).filter((at) => at !== -1);
    const nameEnd = Math.min(body.length, ...places);
    const restStart = body.startsWith(separator, nameEnd) ? nameEnd + separator.length : nameEnd;
    yield { name: pythonStrip(body.slice(0, nameEnd)), rest: body.slice(restStart), source: body };
  }
}

const aliases: Readonly<Record<string, string>> = {
  str: "string",
  text: "string",
  varchar: "string",
  char: "string",
  enum: "string",
  bool: "boolean",
  binary: "boolean",
  int: "integer",
  float: "number",
  double: "number",
  list: "array",
  dict: "object",
  map: "object",
};

/**
 * Types that a schema declares, without "null". Raises the exception of Python for schemas of
 * another shape.
 */
function declaredTypes(tool: string, key: string, scan: ToolCallScan): ReadonlySet<string> {
  const found = scan.tools.find(({ name }) => name === tool);
  const schema = schemaProperties(declaredParameters(found)).get(key) ?? new Map<string, JsonValue>();
  if (!(schema instanceof Map)) throw new PythonError("TypeError", "the schema is no object");
  const types = new Set(optionsOf(schema).map((option) => normalType(option)));
  types.delete("null");
  return types;
}

export function optionsOf(schema: JsonObject): readonly JsonValue[] {
  if (schema.has("type")) return [schema];
  const options = schema.get("anyOf") ?? schema.get("oneOf");
  if (options === undefined) return [new Map([["type", "string"]])];
  if (Array.isArray(options)) return options;
  throw new PythonError("TypeError", "the alternatives are no list");
}

export function normalType(option: JsonValue): string {
  if (!(option instanceof Map)) throw new PythonError("AttributeError", "an alternative is no object");
  const type = option.has("type") ? option.get("type")! : "string";
  if (typeof type !== "string") throw new PythonError("TypeError", "the type is no string");
  if (Object.hasOwn(aliases, type)) return aliases[type]!;
  const lower = pythonLower(type);
  if (/^(?:int|uint|long|short|unsigned)/.test(lower)) return "integer";
  return /^(?:num|float)/.test(lower) ? "number" : type;
}

const scalars: readonly string[] = ["string", "boolean", "integer", "number"];

export function readValue(text: string, types: ReadonlySet<string>): PythonValue {
  const lower = pythonLower(text);
  if (types.has("boolean") && (lower === "true" || lower === "false")) return lower === "true";
  const readings: (() => PythonValue)[] = [];
  if (types.has("integer")) readings.push(() => pythonInt(text));
  if (types.has("number")) readings.push(() => (/[.eE]/.test(text) ? pythonFloat(text) : pythonInt(text)));
  const isStructured = [...types].some((type) => !scalars.includes(type));
  if (isStructured || !types.has("string")) readings.push(() => parseJson(text));
  for (const read of readings) {
    const value = unlessRaised(["JSONDecodeError", "ValueError"], read);
    if (value !== undefined) return value;
  }
  return text;
}
