// Tool calls of MiniMax M2: invoke and parameter tags in a block. Text outside complete blocks is kept as it is. A value
// becomes what the first fitting one of its declared types makes of it.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import {
  PythonError,
  pythonLower,
  pythonLstrip,
  pythonRstrip,
  pythonStrip,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { valueType } from "../schema-type.ts";
import { blocksBetween, dollar } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";
import type { ToolTable } from "../tool-table.ts";
import { kindNames, readInteger, readJson, readNumber, readSwitch } from "../typed-text.ts";

const opening = "<minimax:tool_call>";
const closing = "</minimax:tool_call>";
const invokeOpening = '<invoke name="';
const parameterOpening = '<parameter name="';

export const minimaxM2 = createToolCallParser({
  name: "minimax-m2",
  markers: [opening, closing],
  hints: formatHints({
    wordsEnd: [opening],
    callEnds: [closing],
    nesting: [
      [opening, closing],
      [invokeOpening, "</invoke>"],
      [parameterOpening, "</parameter>"],
    ],
  }),
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    let normalText = "";
    let rest = 0;
    for (const { start, body, end } of blocksBetween(text, opening, closing)) {
      normalText += text.slice(rest, start);
      rest = end;
      readBlock(`${body}${closing}`, scan);
    }
    const unclosed = text.indexOf(opening, rest);
    if (unclosed !== -1)
      scan.report("unterminated-call", text.slice(unclosed), `The calls do not end with ${closing}.`);
    return normalText + text.slice(rest);
  },
});

function readBlock(block: string, scan: ToolCallScan): void {
  for (const source of pieces(block, invokeOpening, "</invoke>", block.length)) {
    const nameEnd = source.indexOf('">');
    if (nameEnd === -1) {
      scan.report("unterminated-call", source, "The name of the tool does not end.");
      continue;
    }
    const name = pythonStrip(source.slice(0, nameEnd));
    const body = source.slice(nameEnd + 2);
    const parameters = new Map<string, PythonValue>();
    for (const parameter of pieces(body, parameterOpening, "</parameter>", dollar(body))) {
      const end = parameter.indexOf('">');
      if (end === -1) continue;
      const value = pythonRstrip(pythonLstrip(parameter.slice(end + 2), "\n"), "\n");
      const key = pythonStrip(parameter.slice(0, end));
      parameters.set(key, convert(value, declaredTypes(name, key, scan.table)));
    }
    scan.add(unlessRaised(null, () => scan.named(name, parameters, source)) ?? []);
  }
}

/** What follows each opening, up to its closing, or for the last one up to `end`. */
function* pieces(text: string, pieceOpening: string, pieceClosing: string, end: number): Generator<string> {
  let rest = 0;
  for (const block of blocksBetween(text, pieceOpening, pieceClosing)) {
    yield block.body;
    rest = block.end;
  }
  const unclosed = text.indexOf(pieceOpening, rest);
  if (unclosed !== -1) yield text.slice(unclosed + pieceOpening.length, end);
}

function declaredTypes(tool: string, parameter: string, table: ToolTable): readonly string[] {
  for (const candidate of table.tools) {
    if (candidate.name !== tool) continue;
    const body = candidate.definition.get("function");
    const parameters = body instanceof Map ? body.get("parameters") : undefined;
    if (!(parameters instanceof Map) || !parameters.has("properties")) continue;
    const properties = parameters.get("properties")!;
    if (properties instanceof Map) return schemaTypes(properties.get(parameter) ?? null);
    if (typeof properties === "string" && !properties.includes(parameter)) return ["string"];
    if (Array.isArray(properties) && !properties.includes(parameter)) return ["string"];
    throw new PythonError("TypeError", "the properties are no object");
  }
  return ["string"];
}

function schemaTypes(schema: JsonValue): readonly string[] {
  if (!(schema instanceof Map)) return ["string"];
  const types = new Set<string>();
  for (const type of [schema.get("type")].flat()) if (typeof type === "string") types.add(type);
  const values = schema.get("enum");
  if (Array.isArray(values)) for (const value of values) types.add(valueType(value));
  for (const key of ["anyOf", "oneOf", "allOf"]) {
    const choices = schema.get(key);
    if (Array.isArray(choices)) for (const type of choices.flatMap(schemaTypes)) types.add(type);
  }
  return types.size === 0 ? ["string"] : [...types];
}

/** Tried in this order, whatever the order in the schema. */
const readings: readonly (readonly [types: readonly string[], read: (text: string) => PythonValue | undefined])[] = [
  [kindNames.integer, readInteger],
  [kindNames.number, readNumber],
  [kindNames.switch, readSwitch],
  [["object", "array"], readJson],
  [[...kindNames.text, "text"], (text) => text],
];

function convert(text: string, types: readonly string[]): PythonValue {
  const declared = types.map(pythonLower);
  if (declared.includes("null") || ["null", "none", "nil"].includes(pythonLower(text))) return null;
  const fitting = readings.filter(([names]) => names.some((name) => declared.includes(name)));
  for (const read of [...fitting.map(([, reader]) => reader), readJson]) {
    const value = read(text);
    if (value !== undefined) return value;
  }
  return text;
}
