// Tool calls of Step3: a section of calls, each an invoke tag with parameter tags. Both ends of the
// section are required, a call without parameters is ignored, and a value contains no "<".

import { type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { isTruthy, pythonStrip, type PythonValue, unlessRaised } from "../../python-semantics/index.ts";
import { evaluateLiteral } from "../../python-semantics/literals.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { blocksBetween } from "../text-pieces.ts";
import { declaredParameters, declaredSchema, type ToolCallScan } from "../tool-call-scan.ts";

const section = "<｜tool_calls_begin｜>";
const sectionEnd = "<｜tool_calls_end｜>";
const opening = "<｜tool_call_begin｜>";
const closing = "<｜tool_call_end｜>";
const separator = "<｜tool_sep｜>";
const invokeClosing = "</steptml:invoke>";

export const step3 = createToolCallParser({
  name: "step3",
  markers: [section, sectionEnd, opening, closing, separator],
  hints: {
    nesting: {
      [section]: sectionEnd,
      [opening]: closing,
      "<steptml:invoke": invokeClosing,
      "<steptml:parameter": "</steptml:parameter>",
    },
  },
  opening: section,
  isAllOrNothing: true,
  detect: (text, scan, start) => {
    const contentStart = start + section.length;
    const end = text.indexOf(sectionEnd, contentStart);
    if (end === -1) {
      scan.report("unterminated-call", text.slice(start), `The calls do not end with ${sectionEnd}.`);
      return text;
    }
    for (const { body } of blocksBetween(text.slice(contentStart, end), opening, closing)) readCall(body, scan);
    return text.slice(0, start) + text.slice(end + sectionEnd.length);
  },
});

function readCall(body: string, scan: ToolCallScan): void {
  const at = body.indexOf(separator);
  if (at === -1 || pythonStrip(body.slice(0, at)) !== "function") {
    scan.report("unterminated-call", body, `A call begins with "function${separator}".`);
    return;
  }
  const invoke = readInvoke(body.slice(at + separator.length));
  if (invoke === null) {
    scan.report("unterminated-call", body, "The call holds no complete invoke tag.");
    return;
  }
  const parameters = new Map<string, PythonValue>();
  for (const [, key, value] of invoke.body.matchAll(
    /<steptml:parameter name="([^"]+)">([^<]*)<\/steptml:parameter>/g,
  )) {
    parameters.set(key!, readValue(pythonStrip(value!), invoke.name, key!, scan));
  }
  scan.add(scan.named(invoke.name, parameters, body));
}

function readInvoke(text: string): { readonly name: string; readonly body: string } | null {
  const header = /<steptml:invoke name="([^"]+)">/g;
  const match = header.exec(text);
  // The body has at least one character, so a closing tag directly after the opening one belongs to
  // the body.
  const end = match === null ? -1 : text.indexOf(invokeClosing, header.lastIndex + 1);
  return match === null || end === -1 ? null : { name: match[1]!, body: text.slice(header.lastIndex, end) };
}

function readValue(text: string, tool: string, parameter: string, scan: ToolCallScan): PythonValue {
  if (scan.tools.length > 0) {
    const type = declaredType(tool, parameter, scan);
    if (!isTruthy(type) || type === "string") return text;
  }
  for (const read of [parseJson, evaluateLiteral]) {
    const value = unlessRaised(null, () => read(text));
    if (value !== undefined) return value;
  }
  return text;
}

/** Type that the last tool of that name declares; schemas of another shape raise. */
function declaredType(tool: string, parameter: string, scan: ToolCallScan): JsonValue {
  return declaredSchema(declaredParameters(scan.tool(tool)), parameter)?.get("type") ?? null;
}
