// Tool calls of Spark 2.5: GLM's tags, values read by their declared types. A block without a name
// stays in the text; calls are numbered.

import { dumpJson } from "../../python-semantics/json/index.ts";
import {
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  type PythonValue,
  narrowFloat,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { readJson } from "../typed-text.ts";
import { argumentPairs, keyClosing, keyOpening, valueClosing, valueOpening } from "./argument-tags.ts";

const opening = "<tool_call>";
const closing = "</tool_call>";

export const spark25 = createToolCallParser({
  name: "spark25",
  markers: [opening, closing, keyOpening, keyClosing, valueOpening, valueClosing],
  hints: { nesting: { [opening]: closing, [valueOpening]: valueClosing } },
  opening,
  detect: (text, scan) => {
    let outside = "";
    let rest = 0;
    for (const { start, body, end } of scan.blocks(text, opening, closing)) {
      outside += text.slice(rest, start);
      rest = end;
      const firstKey = body.indexOf(keyOpening);
      const name = pythonStrip(firstKey === -1 ? body : body.slice(0, firstKey));
      if (name === "") {
        scan.report("no-name", body, "The call has no name.");
        outside += text.slice(start, end);
      } else if (scan.isCallable(name, body)) {
        const parameters = dumpJson(readArguments(body, name, scan), { separators: [",", ":"] });
        scan.add([scan.call(name, parameters, scan.calls.length)]);
      }
    }
    return outside + text.slice(rest);
  },
});

function readArguments(body: string, tool: string, scan: ToolCallScan): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  for (const [key, value] of argumentPairs(body, null)) {
    if (key !== "") result.set(key, readValue(value, pythonLower(declaredType(tool, key, scan))));
  }
  return result;
}

/** Among tools with equal names, the first that declares a type counts. */
function declaredType(tool: string, key: string, scan: ToolCallScan): string {
  for (const candidate of scan.tools) {
    if (candidate.name !== tool) continue;
    const schema = schemaProperties(declaredParameters(candidate)).get(key);
    const type = schema instanceof Map ? schema.get("type") : undefined;
    if (typeof type === "string") return type;
  }
  return "string";
}

const isOneOf = (type: string, ...names: readonly string[]): boolean => names.includes(type);

/** Text that does not fit its type is read as JSON, and stays text if it is not JSON. */
function readValue(text: string, type: string): PythonValue {
  if (pythonLower(text) === "null") return null;
  if (isOneOf(type, "string", "str", "text")) return text;
  const value = readTyped(text, type) ?? unlessRaised(["ValueError"], () => readJson(text));
  return value === undefined ? text : value;
}

function readTyped(text: string, type: string): PythonValue | undefined {
  if (isOneOf(type, "integer", "int")) return unlessRaised(["ValueError"], () => pythonInt(text));
  if (isOneOf(type, "number", "float")) return unlessRaised(["ValueError"], () => readNumber(text));
  if (!isOneOf(type, "boolean", "bool")) return undefined;
  const word = pythonLower(pythonStrip(text));
  return isOneOf(word, "true", "1") ? true : isOneOf(word, "false", "0") ? false : undefined;
}

/** A float, or the integer it equals. */
export function readNumber(text: string): PythonValue {
  const float = pythonFloat(text);
  return Number.isFinite(float.value) ? narrowFloat(float) : float;
}
