// Tool calls of Mistral: a JSON array after `[TOOL_CALLS] `, or one call in the compact form `[TOOL_CALLS]name[ARGS]{...}`.
// Brackets are counted outside of strings; only the first array counts. Text after the calls joins the text before them.

import { JsonFloat, JsonSyntaxError, type JsonValue, parseJson } from "../../lib/json/index.ts";
import { pythonStrip } from "../../lib/python/index.ts";
import { formatHints } from "../format-hints.ts";
import { isSpace } from "../python/patterns.ts";
import { createToolCallParser } from "../tool-call-parser.ts";

const marker = "[TOOL_CALLS";
const arrayMarker = "[TOOL_CALLS] [";
const argumentsMarker = "[ARGS";

export const mistral = createToolCallParser({
  name: "mistral",
  markers: ["[TOOL_CALLS]", "[ARGS]"],
  hints: formatHints({
    wordsEnd: [marker],
    nesting: [
      ["[TOOL_CALLS] ", ""],
      ["[ARGS]", ""],
    ],
  }),
  hasToolCall: (text) => text.includes(marker),
  detect: (text, scan) => {
    const start = text.indexOf(marker);
    if (start === -1) return text;
    const before = pythonStrip(text.slice(0, start));
    const calls = text.slice(start);
    const withTrailing = (end: number): string => {
      const trailing = pythonStrip(calls.slice(end));
      return trailing === "" ? before : pythonStrip(`${before} ${trailing}`);
    };
    const arrayStart = calls.indexOf(arrayMarker);
    if (arrayStart !== -1) {
      const open = arrayStart + arrayMarker.length - 1;
      const end = findClosing(calls, open);
      if (end === -1) {
        scan.report("unterminated-call", calls, "The list of calls does not end.");
        return before;
      }
      const json = calls.slice(open, end);
      const value = scan.tryJson(json);
      if (value !== undefined) scan.add(scan.callsIn(value, json));
      // The same text may stand before the array; the first one counts.
      return withTrailing(calls.indexOf(json) + json.length);
    }
    const compact = readCompact(calls);
    if (compact === null) {
      scan.report("unterminated-call", calls, 'A call needs its name, "[ARGS]" and a complete JSON object.');
      return before;
    }
    const { name, value, end } = compact;
    scan.add(scan.callsIn(new Map([["name", name], ["arguments", value]]), calls.slice(0, end))); // prettier-ignore
    return withTrailing(end);
  },
});

type Compact = { readonly name: string; readonly value: JsonValue; readonly end: number };

function readCompact(calls: string): Compact | null {
  const nameStart = skipSpace(calls, skipBracket(calls, marker.length));
  const markerStart = calls.indexOf(argumentsMarker, nameStart);
  if (markerStart === -1) return null;
  const name = pythonStrip(calls.slice(nameStart, markerStart));
  const open = skipSpace(calls, skipBracket(calls, markerStart + argumentsMarker.length));
  if (name === "" || (calls[open] !== "{" && calls[open] !== "[")) return null;
  const end = findClosing(calls, open);
  if (end === -1) return null;
  const value = readStrictJson(calls.slice(open, end));
  return value === undefined ? null : { name, value, end };
}

const skipBracket = (text: string, at: number): number => (text[at] === "]" ? at + 1 : at);

function skipSpace(text: string, start: number): number {
  let at = start;
  while (at < text.length && isSpace(text[at]!)) at++;
  return at;
}

/** After the bracket that closes the one at `open`, brackets of its own kind counted outside strings; -1: none does. */
function findClosing(text: string, open: number): number {
  const opening = text[open];
  const closing = opening === "{" ? "}" : "]";
  let depth = 0;
  let isString = false;
  for (let at = open; at < text.length; at++) {
    const character = text[at];
    if (character === "\\") at++;
    else if (character === '"') isString = !isString;
    else if (!isString && character === opening) depth++;
    else if (!isString && character === closing && --depth === 0) return at + 1;
  }
  return -1;
}

/** JSON that a second, stricter reader of the reference takes as well: no NaN, no infinities, no lone surrogates. */
function readStrictJson(text: string): JsonValue | undefined {
  try {
    const value = parseJson(text);
    return isStrict(value) ? value : undefined;
  } catch (error) {
    if (error instanceof JsonSyntaxError && error.pythonType === "JSONDecodeError") return undefined;
    if (error instanceof JsonSyntaxError && error.pythonType === "ValueError") return undefined;
    throw error;
  }
}

function isStrict(value: JsonValue): boolean {
  if (value instanceof JsonFloat) return Number.isFinite(value.value);
  if (typeof value === "bigint") return Number.isFinite(Number(value));
  if (typeof value === "string") return !/\p{Surrogate}/u.test(value);
  if (Array.isArray(value)) return value.every(isStrict);
  if (value instanceof Map) return Array.from(value).every(([key, item]) => isStrict(key) && isStrict(item));
  return true;
}
