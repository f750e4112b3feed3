// Tool calls of DeepSeek V3.2 and V4: DSML, tags whose parameters say whether they are strings. The body of a call may be one
// JSON object instead. Only the first section counts.

import { type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonStrip, space, unlessRaised } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallParser } from "../tool-call-parser.ts";
import { dollar } from "../text-pieces.ts";

const invokeClosing = "</｜DSML｜invoke>";
const parameterClosing = "</｜DSML｜parameter>";

function createDsmlParser(name: string, sectionName: string): ToolCallParser {
  const opening = `<｜DSML｜${sectionName}>`;
  const closing = `</｜DSML｜${sectionName}>`;
  return createToolCallParser({
    name,
    markers: [opening, closing, invokeClosing, parameterClosing],
    hints: {
      nesting: { [opening]: closing, "<｜DSML｜invoke": invokeClosing, "<｜DSML｜parameter": parameterClosing },
    },
    opening,
    hasToolCall: (text) => text.includes(opening) || text.includes("<｜DSML｜invoke"),
    isAllOrNothing: true,
    detect: (text, scan, start) => {
      const end = text.indexOf(closing, start);
      if (end === -1) scan.report("unterminated-call", text.slice(start), `The calls do not end with ${closing}.`);
      for (const invoke of end === -1 ? [] : readInvokes(text.slice(start + opening.length, end))) {
        scan.add(scan.named(invoke.name, readParameters(invoke.body), invoke.body));
      }
      return pythonStrip(text.slice(0, start));
    },
  });
}

export const deepseekv32 = createDsmlParser("deepseekv32", "function_calls");
export const deepseekv4 = createDsmlParser("deepseekv4", "tool_calls");

/** The last call need not be closed. */
function* readInvokes(content: string): Generator<{ readonly name: string; readonly body: string }> {
  const header = openingTag("invoke", ["name"]);
  for (let match = header.exec(content); match !== null; match = header.exec(content)) {
    const closing = content.indexOf(invokeClosing, header.lastIndex);
    const end = closing === -1 ? Math.max(dollar(content), header.lastIndex) : closing;
    yield { name: match[1]!, body: content.slice(header.lastIndex, end) };
    if (closing === -1) return;
    header.lastIndex = closing + invokeClosing.length;
  }
}

function readParameters(body: string): ReadonlyMap<string, JsonValue> {
  const stripped = pythonStrip(body);
  const whole = stripped.startsWith("{") && stripped.endsWith("}") ? readJson(stripped) : undefined;
  if (whole instanceof Map) return whole;
  const parameters = new Map<string, JsonValue>();
  const header = openingTag("parameter", ["name", "string"]);
  for (let match = header.exec(body); match !== null; match = header.exec(body)) {
    const end = body.indexOf(parameterClosing, header.lastIndex);
    if (end === -1) break;
    const value = pythonStrip(body.slice(header.lastIndex, end));
    const json = match[2] === "true" ? undefined : readJson(value);
    parameters.set(match[1]!, json === undefined ? value : json);
    header.lastIndex = end + parameterClosing.length;
  }
  return parameters;
}

/** An opening tag with just these attributes, each captured. */
function openingTag(name: string, attributes: readonly string[]): RegExp {
  const written = attributes.map((attribute) => `${space}+${attribute}="([^"]+)"`);
  return new RegExp(`<｜DSML｜${name}${written.join("")}${space}*>`, "gu");
}

const readJson = (text: string): JsonValue | undefined =>
  unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(text));
