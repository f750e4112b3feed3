// Tool calls of DeepSeek V3.2, V4 and V4.1: DSML, tags whose parameters state whether they are
// strings. The body of a call may be one JSON object instead. Calls may occur without their
// section. An unreadable call is dropped, and the others stay.

import { type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonExceptionType, pythonStrip, space, unlessRaised } from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";
import { blocksBetween } from "../text-pieces.ts";

const token = "｜DSML｜";

/** Names of the tags, without the token that all of them begin with. */
type Tags = { readonly section: string; readonly invoke: string; readonly parameter: string };

function createDsmlParser(name: string, { section, invoke, parameter }: Tags): ToolCallParser {
  const opening = `<${token}${section}>`;
  const closing = `</${token}${section}>`;
  const invokeOpening = `<${token}${invoke}`;
  const invokeClosing = `</${token}${invoke}>`;
  const parameterOpening = `<${token}${parameter}`;
  const parameterClosing = `</${token}${parameter}>`;
  const reader: InvokeReader = {
    invokePattern: `${openingTag(invokeOpening, ["name"])}(/?)>`,
    invokeClosing,
    parameterPattern: `${openingTag(parameterOpening, ["name", "string"])}>`,
    parameterClosing,
  };
  return createToolCallParser({
    name,
    markers: [opening, closing, invokeClosing, parameterClosing],
    hints: {
      contentEnd: [`<${token}`, `</${token}`, token],
      nesting: { [opening]: closing, [invokeOpening]: invokeClosing, [parameterOpening]: parameterClosing },
    },
    opening: null,
    hasToolCall: (text) => text.includes(opening) || text.includes(invokeOpening),
    detect: (text, scan) => {
      const start = text.indexOf(opening);
      const bare = start === -1 ? text.indexOf(invokeOpening) : -1;
      if (start === -1 && bare === -1) return text;
      const sections =
        start === -1 ? [text.slice(bare)] : Array.from(blocksBetween(text, opening, closing), ({ body }) => body);
      const unclosed = start === -1 ? -1 : text.indexOf(opening, text.lastIndexOf(closing) + 1);
      if (unclosed !== -1) {
        scan.report("unterminated-call", text.slice(unclosed), `The calls do not end with ${closing}.`);
      }
      try {
        for (const content of sections) readInvokes(content, reader, scan);
      } catch (error) {
        // Calls before one that Python cannot represent are kept.
        if (pythonExceptionType(error) === null) throw error;
        scan.report("not-json", text, "A call of the text is beyond what can be read.");
      }
      return withoutBlankLine(start === -1 ? textBeforeDsml(text) : text.slice(0, start));
    },
  });
}

export const deepseekv32 = createDsmlParser("deepseekv32", {
  section: "function_calls",
  invoke: "invoke",
  parameter: "parameter",
});
export const deepseekv4 = createDsmlParser("deepseekv4", {
  section: "tool_calls",
  invoke: "invoke",
  parameter: "parameter",
});
/** Its tags begin with a blank. */
export const deepseekv41 = createDsmlParser("deepseekv41", {
  section: " calls",
  invoke: " invoke",
  parameter: " parameter",
});

/** Text before the first tag of the family, no matter which tag it is. */
function textBeforeDsml(text: string): string {
  const at = text.indexOf(token);
  const before = text.slice(0, at);
  if (before.endsWith("</")) return before.slice(0, -2);
  return before.endsWith("<") ? before.slice(0, -1) : before;
}

/** Templates write a blank line before calls. */
const withoutBlankLine = (text: string): string => (text.endsWith("\n\n") ? text.slice(0, -2) : text);

type InvokeReader = {
  /** Captures the name, and the slash of a self-closing tag. */
  readonly invokePattern: string;
  readonly invokeClosing: string;
  /** Captures the name, and the tag's statement whether the value is a string. */
  readonly parameterPattern: string;
  readonly parameterClosing: string;
};

function readInvokes(content: string, reader: InvokeReader, scan: ToolCallScan): void {
  const header = new RegExp(reader.invokePattern, "gu");
  for (let match = header.exec(content); match !== null; match = header.exec(content)) {
    const [, name, slash] = match;
    const bodyStart = header.lastIndex;
    const isSelfClosed = slash === "/";
    const end = isSelfClosed ? bodyStart : content.indexOf(reader.invokeClosing, bodyStart);
    if (end === -1) {
      scan.report(
        "unterminated-call",
        content.slice(match.index),
        `The call does not end with ${reader.invokeClosing}.`,
      );
      return;
    }
    const body = content.slice(bodyStart, end);
    const parameters = isSelfClosed ? new Map<string, JsonValue>() : readParameters(body, reader);
    if (parameters === null) {
      scan.report(
        "not-json",
        body,
        "The arguments must be a JSON object, or parameter tags that are complete.",
        pythonStrip(name!),
      );
    } else {
      scan.add(scan.named(pythonStrip(name!), parameters, body));
    }
    header.lastIndex = isSelfClosed ? end : end + reader.invokeClosing.length;
  }
}

/** `null`: the body is neither one JSON object nor complete parameter tags. */
function readParameters(
  body: string,
  { parameterPattern, parameterClosing }: InvokeReader,
): ReadonlyMap<string, JsonValue> | null {
  const stripped = pythonStrip(body);
  if (stripped.startsWith("{")) {
    const whole = readFiniteJson(stripped);
    return whole instanceof Map ? whole : null;
  }
  const parameters = new Map<string, JsonValue>();
  const header = new RegExp(parameterPattern, "gu");
  let outside = "";
  let rest = 0;
  for (let match = header.exec(body); match !== null; match = header.exec(body)) {
    const end = body.indexOf(parameterClosing, header.lastIndex);
    if (end === -1) break;
    const value = pythonStrip(body.slice(header.lastIndex, end));
    const json = match[2] === "true" ? undefined : readFiniteJson(value);
    parameters.set(match[1]!, json === undefined ? value : json);
    outside += body.slice(rest, match.index);
    rest = end + parameterClosing.length;
    header.lastIndex = rest;
  }
  outside += body.slice(rest);
  // Plain text beside tags is harmless; a piece of a tag means that an argument would be missing.
  const isMalformed = outside.includes(token) || (parameters.size === 0 && pythonStrip(outside) !== "");
  return isMalformed ? null : parameters;
}

/** The beginning of an opening tag with these attributes, each captured. */
function openingTag(opening: string, attributes: readonly string[]): string {
  const written = attributes.map((attribute) => `${space}+${attribute}="([^"]+)"`);
  return `${opening}${written.join("")}${space}*`;
}

/** JSON without NaN and Infinity; `undefined` if Python refuses it. */
function readFiniteJson(text: string): JsonValue | undefined {
  if (/NaN|Infinity/.test(text) && /NaN|Infinity/.test(text.replaceAll(/"(?:[^"\\]|\\[^])*"/g, '""'))) return undefined;
  return unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(text));
}
