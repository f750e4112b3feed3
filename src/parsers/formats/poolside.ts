// Tool calls of Poolside's Laguna: GLM's tags. Calls of unknown tools are dropped, even where
// others are forwarded, and text after the first call is not content.

import { dumpJson, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import {
  pythonLower,
  pythonRepr,
  pythonStrip,
  type PythonValue,
  space,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { evaluateLiteral, literalErrors } from "../../python-semantics/literals.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { keyClosing, keyOpening, valueClosing, valueOpening } from "./argument-tags.ts";

const opening = "<tool_call>";
const closing = "</tool_call>";

export const poolside = createToolCallParser({
  name: "poolside_v1",
  markers: [opening, closing, keyOpening, keyClosing, valueOpening, valueClosing],
  hints: { nesting: { [opening]: closing, [valueOpening]: valueClosing } },
  opening,
  detect: (text, scan, start) => {
    for (const { body } of scan.blocks(text, opening, closing)) {
      const ends = ["\n", keyOpening].map((mark) => body.indexOf(mark)).filter((at) => at !== -1);
      const name = pythonStrip(body.slice(0, Math.min(body.length, ...ends)));
      scan.isCallable(name, body);
      if (scan.hasTool(name)) scan.add([scan.call(name, dumpJson(readArguments(body, name, scan)))]);
    }
    return text.slice(0, start);
  },
});

/** A key contains no "<"; white space may precede its value. */
const header = new RegExp(`${keyOpening}([^<]*)${keyClosing}${space}*${valueOpening}`, "gu");

function readArguments(body: string, tool: string, scan: ToolCallScan): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  const schemas = propertiesOf(tool, scan);
  header.lastIndex = 0;
  for (let match = header.exec(body); match !== null; match = header.exec(body)) {
    const start = header.lastIndex;
    const end = body.indexOf(valueClosing, start);
    if (end === -1) break;
    const key = pythonStrip(match[1]!);
    const value = body.slice(start, end).replace(/^\n/, "").replace(/\n$/, "");
    result.set(key, readValue(value, schemas.get(key)));
    header.lastIndex = end + valueClosing.length;
  }
  return result;
}

/** Among tools with equal names, the first whose parameters are an object counts. */
function propertiesOf(tool: string, scan: ToolCallScan): ReadonlyMap<string, JsonValue> {
  for (const candidate of scan.tools) {
    const parameters = declaredParameters(candidate);
    if (candidate.name === tool && parameters instanceof Map) return schemaProperties(parameters);
  }
  return new Map();
}

const ignored = [...literalErrors, "JSONDecodeError", "TypeError"];

/**
 * Reads a value according to the declared type: as plain text, JSON or a Python literal. A literal
 * that JSON cannot write does not count.
 */
function readValue(text: string, schema: JsonValue | undefined): PythonValue {
  const declared = schema instanceof Map ? (schema.has("type") ? schema.get("type")! : "") : "";
  const type = pythonLower(typeof declared === "string" ? declared : pythonRepr(declared));
  if (["string", "str", "text", "enum"].includes(type)) return text;
  for (const read of type === "" ? [parseJson] : [parseJson, evaluateLiteral]) {
    const value = unlessRaised(ignored, (): PythonValue => {
      const result = read(text);
      dumpJson(result);
      return result;
    });
    if (value !== undefined) return value;
  }
  return text;
}
