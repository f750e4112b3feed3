// Tool calls of Qwen3-Coder: function and parameter tags whose closing tags may be missing. Names are not checked against
// the tools; calls are numbered. Also `step3p5`, and Seed-OSS, which has tags of its own around the same and no parser in SGLang.

import type { JsonFloat, JsonValue } from "../../python-semantics/json/index.ts";
import {
  dumpPython,
  integerOf,
  PythonError,
  pythonFloat,
  pythonLower,
  pythonStr,
  pythonStrip,
  type PythonValue,
} from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { blocksBetween, dollar } from "../text-blocks.ts";
import { createToolCallParser, type ToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";
import { readTaggedValue, type TaggedValueRules } from "./tagged-value.ts";

const functionOpening = "<function=";
const functionClosing = "</function>";
const parameterOpening = "<parameter=";
const parameterClosing = "</parameter>";

export const qwen3Coder = createFunctionTagParser("qwen3_coder", "<tool_call>", "</tool_call>");
export const seedOss = createFunctionTagParser("seed_oss", "<seed:tool_call>", "</seed:tool_call>");

function createFunctionTagParser(name: string, opening: string, closing: string): ToolCallParser {
  return createToolCallParser({
    name,
    markers: [opening, closing],
    hints: formatHints({ wordsEnd: [opening], callEnds: [closing], nesting: [[opening, closing]] }),
    hasToolCall: (text) => text.includes(opening),
    detect: (text, scan) => {
      const first = text.indexOf(opening);
      if (first === -1) return text;
      return scan.allOrNothing(text, () => {
        const bodies = Array.from(blocksBetween(text, opening, closing), ({ body }) => body);
        if (bodies.length === 0 && text.includes(functionOpening)) bodies.push(text);
        let count = 0;
        for (const source of bodies.flatMap((body) => [...readFunctions(body)])) {
          const nameEnd = source.indexOf(">");
          if (nameEnd === -1) {
            scan.report("unterminated-call", source, 'The name of the function does not end with ">".');
            continue;
          }
          const tool = source.slice(0, nameEnd);
          if (!scan.table.indices.has(tool)) scan.report("unknown-tool", source, `There is no tool "${tool}".`, tool);
          const parameters = readParameters(source.slice(nameEnd + 1), declaredParameters(tool, scan));
          scan.add([{ name: tool, parameters: dumpPython(parameters), toolIndex: count++ }]);
        }
        if (count === 0) scan.report("unterminated-call", text.slice(first), "The tags hold no function.");
        return text.slice(0, first);
      });
    },
  });
}

/** Each reaches to its closing tag, the last one to the end where there is none. */
function* readFunctions(body: string): Generator<string> {
  let rest = 0;
  for (const block of blocksBetween(body, functionOpening, functionClosing)) {
    yield block.body;
    rest = block.end;
  }
  const unclosed = body.indexOf(functionOpening, rest);
  if (unclosed !== -1) yield body.slice(unclosed + functionOpening.length);
}

function readParameters(text: string, declared: JsonValue): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  const stop = new RegExp(`${parameterClosing}|(?=${parameterOpening})|(?=${functionClosing})`, "g");
  for (let start = text.indexOf(parameterOpening); start !== -1;) {
    const bodyStart = start + parameterOpening.length;
    stop.lastIndex = bodyStart;
    const match = stop.exec(text);
    const end = match?.index ?? Math.max(dollar(text), bodyStart);
    const source = text.slice(bodyStart, end);
    const nameEnd = source.indexOf(">");
    if (nameEnd !== -1) {
      const name = source.slice(0, nameEnd);
      const value = source
        .slice(nameEnd + 1)
        .replace(/^\n/, "")
        .replace(/\n$/, "");
      result.set(name, readValue(value, name, declared));
    }
    start = text.indexOf(parameterOpening, match === null ? text.length : end + match[0].length);
  }
  return result;
}

const rules: TaggedValueRules = {
  readNumber: (text) => {
    const float: JsonFloat = pythonFloat(text);
    const isWritten = text.includes(".") || pythonLower(text).includes("e");
    return !isWritten && Number.isInteger(float.value) ? integerOf(float.value) : float;
  },
  ignoredOfLiterals: null,
};

function readValue(text: string, name: string, declared: JsonValue): PythonValue {
  if (pythonLower(text) === "null") return null;
  if (!(declared instanceof Map)) {
    refuseOddDeclaration(declared, name);
    return text;
  }
  const schema = declared.get(name);
  const type = schema instanceof Map && schema.has("type") ? schema.get("type")! : "string";
  return readTaggedValue(text, pythonLower(pythonStrip(pythonStr(type))), rules);
}

/** What looking a name up in something that is no object raises in the reference. */
function refuseOddDeclaration(declared: JsonValue, name: string): void {
  const isSearchable =
    typeof declared === "string" ? declared.includes(name) : Array.isArray(declared) && declared.includes(name);
  if (isSearchable || (typeof declared !== "string" && !Array.isArray(declared))) {
    throw new PythonError("TypeError", "the declared properties are not an object");
  }
}

/** The properties of the first tool of that name; the parameters themselves when they declare none. */
function declaredParameters(name: string, scan: ToolCallScan): JsonValue {
  const tool = scan.table.tools.find(
    (candidate) => candidate.name === name && isFunction(candidate.definition.get("type")),
  );
  const body = tool?.definition.get("function");
  const parameters = body instanceof Map ? body.get("parameters") : undefined;
  if (!(parameters instanceof Map)) return new Map();
  return parameters.has("properties") ? parameters.get("properties")! : parameters;
}

const isFunction = (type: JsonValue | undefined): boolean => type === undefined || type === "function";
