// Tool calls of MiMo: Qwen3-Coder's tags, all of them closed, values verbatim but for HTML entities. Calls of unknown tools
// go back into the text.

import type { JsonValue } from "../../python-semantics/json/index.ts";
import {
  literalErrors,
  narrowFloat,
  PythonError,
  pythonFloat,
  pythonLower,
  pythonStrip,
  type PythonValue,
} from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { unescapeHtml } from "../html/unescape.ts";
import { blocksBetween } from "../text-blocks.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import type { ToolTable } from "../tool-table.ts";
import { readTaggedValue, type TaggedValueRules } from "./tagged-value.ts";

const opening = "<tool_call>";
const closing = "</tool_call>";

export const mimo = createToolCallParser({
  name: "mimo",
  markers: [opening, closing],
  hints: formatHints({
    wordsEnd: [opening],
    callEnds: [closing],
    nesting: [
      [opening, closing],
      ["<function=", "</function>"],
      ["<parameter=", "</parameter>"],
    ],
  }),
  hasToolCall: (text) => text.includes(opening),
  detect: (text, scan) => {
    const first = text.indexOf(opening);
    if (first === -1) return text;
    let normalText = text.slice(0, first);
    let rest = first;
    for (const { body, end } of blocksBetween(text, opening, closing)) {
      const call = readFirstTag(body, "function", "</function>");
      if (call === null) {
        scan.report("unterminated-call", body, "The tags hold no complete function.");
      } else {
        const parameters = readParameters(call.body, call.name, scan.table);
        const calls = scan.named(call.name, parameters, body);
        if (calls.length === 0) normalText += text.slice(rest, end);
        scan.add(calls);
      }
      rest = end;
    }
    const unclosed = text.indexOf(opening, rest);
    if (unclosed !== -1)
      scan.report("unterminated-call", text.slice(unclosed), `The call does not end with ${closing}.`);
    return normalText;
  },
});

type Tag = { readonly name: string; readonly body: string; readonly end: number };

/** `<kind=NAME>body` up to the first closing tag; a name is not empty, holds no ">" and is stripped. */
function readFirstTag(text: string, kind: string, closingTag: string, from = 0): Tag | null {
  const header = `<${kind}=`;
  let nameStart = from;
  let nameEnd = nameStart;
  while (nameEnd === nameStart) {
    const start = text.indexOf(header, nameStart);
    if (start === -1) return null;
    nameStart = start + header.length;
    nameEnd = text.indexOf(">", nameStart);
  }
  const end = nameEnd === -1 ? -1 : text.indexOf(closingTag, nameEnd + 1);
  if (end === -1) return null;
  return { name: pythonStrip(text.slice(nameStart, nameEnd)), body: text.slice(nameEnd + 1, end), end: end + closingTag.length }; // prettier-ignore
}

function readParameters(text: string, tool: string, table: ToolTable): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  for (let tag = readFirstTag(text, "parameter", "</parameter>"); tag !== null;) {
    const value = unescapeHtml(tag.body);
    const isNull = pythonLower(value) === "null";
    result.set(tag.name, isNull ? null : readTaggedValue(value, declaredType(tool, tag.name, table), rules));
    tag = readFirstTag(text, "parameter", "</parameter>", tag.end);
  }
  return result;
}

const rules: TaggedValueRules = {
  readNumber: (text) => narrowFloat(pythonFloat(text)),
  ignoredOfLiterals: [...literalErrors, "TypeError"],
};

/** Throws what the reference raises for schemas that are not shaped as it expects; only a type that is a text passes. */
function declaredType(tool: string, parameter: string, table: ToolTable): string {
  for (const candidate of table.tools) {
    if (candidate.name !== tool) continue;
    const body = candidate.definition.get("function");
    const parameters = body instanceof Map ? (body.get("parameters") ?? null) : null;
    if (!(parameters instanceof Map)) throw new PythonError("AttributeError", "the parameters are no object");
    const properties = parameters.has("properties") ? parameters.get("properties")! : new Map<string, JsonValue>();
    if (!(properties instanceof Map)) {
      const isSearchable = typeof properties === "string" || Array.isArray(properties);
      if (isSearchable && !properties.includes(parameter)) continue;
      throw new PythonError("TypeError", "the properties cannot be searched");
    }
    const schema = properties.get(parameter);
    if (schema === undefined) continue;
    if (!(schema instanceof Map)) throw new PythonError("AttributeError", "the schema is no object");
    const type = schema.has("type") ? schema.get("type")! : "string";
    if (typeof type !== "string") throw new PythonError("AttributeError", "the type is no text");
    return type;
  }
  return "string";
}
