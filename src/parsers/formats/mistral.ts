// Tool calls of Mistral: a JSON array after `[TOOL_CALLS] `, or calls in the compact form `[TOOL_CALLS]name[ARGS]{...}`.
// Brackets are counted outside of strings; only the first array counts. Text after the calls joins the text before them.

import { JsonFloat, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { pythonStrip, space, unlessRaised } from "../../python-semantics/index.ts";
import { argumentsTag, idMarker, idsMarker, readBlocks } from "../mistral-blocks.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { guessName, type ToolCallScan } from "../tool-call-scan.ts";

const marker = "[TOOL_CALLS";
const arrayMarker = "[TOOL_CALLS] [";
const argumentsMarker = "[ARGS";

export const mistral = createToolCallParser({
  name: "mistral",
  markers: ["[TOOL_CALLS]", "[ARGS]"],
  hints: {
    nesting: { "[TOOL_CALLS] ": "", "[ARGS]": "" },
  },
  opening: marker,
  detect: (text, scan, start) => {
    const before = pythonStrip(text.slice(0, start));
    const behind = text.slice(start);
    const rest = behind.includes(arrayMarker) ? readArrayCalls(behind, scan) : readCompactCalls(behind, scan);
    return [before, rest].filter((part) => part !== "").join(" ");
  },
});

const incomplete = "The list of calls must end; a single call needs a name, [ARGS] and JSON.";

/** Takes the calls of the first array; returns the text after it. */
function readArrayCalls(text: string, scan: ToolCallScan): string {
  const found = findArray(text, scan);
  if (found === null) {
    scan.report("unterminated-call", text, incomplete);
    return "";
  }
  if (found.value !== undefined) scan.add(scan.callsIn(found.value, found.source));
  return pythonStrip(text.slice(found.end));
}

/**
 * Takes consecutive calls, each with a marker; returns the text after the last one, or nothing if
 * no call was read.
 */
function readCompactCalls(text: string, scan: ToolCallScan): string {
  let rest = text;
  for (let found = findCompact(rest); found !== null; found = findCompact(rest)) {
    scan.add(scan.callsIn(found.value!, found.source));
    rest = pythonStrip(rest.slice(found.end));
  }
  if (rest.includes(marker)) scan.report("unterminated-call", rest, incomplete);
  return scan.calls.length === 0 ? "" : rest;
}

/** `value` is `undefined` if the JSON is unreadable. */
type Found = { readonly value: JsonValue | undefined; readonly source: string; readonly end: number };

function findArray(text: string, scan: ToolCallScan): Found | null {
  const source = bracketed(text, text.indexOf(arrayMarker) + arrayMarker.length - 1);
  if (source === null) return null;
  // The same text may occur before the array; the first occurrence counts.
  return { value: scan.tryJson(source), source, end: text.indexOf(source) + source.length };
}

function findCompact(text: string): Found | null {
  const start = text.indexOf(marker);
  const markerStart = start === -1 ? -1 : text.indexOf(argumentsMarker, start + marker.length);
  if (markerStart === -1) return null;
  const name = pythonStrip(text.slice(start + marker.length, markerStart).replace(/^\]/, ""));
  beforeJson.lastIndex = markerStart + argumentsMarker.length;
  const json = name !== "" && beforeJson.test(text) ? bracketed(text, beforeJson.lastIndex) : null;
  const value = json === null ? undefined : readStrictJson(json);
  if (json === null || value === undefined) return null;
  const end = beforeJson.lastIndex + json.length;
  return { value: new Map([["name", name], ["arguments", value]]), source: text.slice(0, end), end }; // prettier-ignore
}

/** Text allowed between the beginning of the marker and its JSON. */
const beforeJson = new RegExp(`\\]?${space}*(?=[{[])`, "uy");

/**
 * The text up to the bracket that closes the one at `start`; only brackets of its kind outside of
 * strings count.
 */
function bracketed(text: string, start: number): string | null {
  const opening = text[start]!;
  const closing = opening === "{" ? "}" : "]";
  const stops = /\\[^]|["{}[\]]/g;
  stops.lastIndex = start;
  let depth = 0;
  let isString = false;
  for (let stop = stops.exec(text)?.[0]; stop !== undefined; stop = stops.exec(text)?.[0]) {
    if (stop === '"') isString = !isString;
    if (isString) continue;
    if (stop === opening) depth++;
    if (stop === closing && --depth === 0) return text.slice(start, stops.lastIndex);
  }
  return null;
}

/**
 * JSON that a second, stricter reader of the reference accepts as well: no NaN, no infinities, no
 * lone surrogates.
 */
function readStrictJson(text: string): JsonValue | undefined {
  const value = unlessRaised(["JSONDecodeError", "ValueError"], () => parseJson(text));
  return value !== undefined && isStrict(value) ? value : undefined;
}

function isStrict(value: JsonValue): boolean {
  if (value instanceof JsonFloat) return Number.isFinite(value.value);
  if (typeof value === "bigint") return Number.isFinite(Number(value));
  if (typeof value === "string") return !/\p{Surrogate}/u.test(value);
  if (Array.isArray(value)) return value.every(isStrict);
  if (value instanceof Map) return Array.from(value).every(([key, item]) => isStrict(key) && isStrict(item));
  return true;
}

/**
 * Mistral's templates with call ids: `[TOOL_CALLS]` before a JSON array without a blank, or before
 * every single call as `name[CALL_ID]id[ARGS]{...}`. Our own format: SGLang's `mistral` reads
 * neither. The ids serve only writers of history.
 */
export const mistralIds = createToolCallParser({
  name: "mistral_ids",
  markers: [idsMarker, idMarker, argumentsTag],
  hints: {
    nesting: { [idsMarker]: "", [argumentsTag]: "" },
  },
  opening: idsMarker,
  detect: (text, scan) => {
    const content: string[] = [];
    let copied = 0;
    for (const { start, end, value } of readBlocks(text)) {
      content.push(text.slice(copied, start));
      copied = end;
      const source = text.slice(start, end);
      if (value !== undefined) scan.add(scan.callsIn(value, source));
      else scan.report("not-json", source, "A call needs its name and its arguments as JSON.", guessName(source));
    }
    return pythonStrip(content.join("") + text.slice(copied));
  },
});
