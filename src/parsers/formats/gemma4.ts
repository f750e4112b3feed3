// Tool calls of Gemma 4: `call:name{key:value}` between markers, with strings between delimiters of
// their own, objects, lists and bare values. Names are not checked against the tools. An unclosed
// value extends to the end of the text, without its last character.

import { dumpJson } from "../../python-semantics/json/index.ts";
import {
  PythonError,
  pythonFloat,
  pythonInt,
  pythonStrip,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";

const opening = "<|tool_call>";
const closing = "<tool_call|>";
const delimiter = '<|"|>';
const prefix = "call:";

/**
 * Maximum nesting that is read, because the end of every level is searched for. Python's recursion
 * limit is higher; this is the only difference from SGLang.
 */
const maxDepth = 100;

export const gemma4 = createToolCallParser({
  name: "gemma4",
  markers: [opening, closing, delimiter],
  hints: { nesting: { [opening]: closing } },
  opening,
  detect: (text, scan, start) => {
    let found = 0;
    for (const { body } of scan.blocks(text, opening, closing)) {
      const brace = body.startsWith(prefix) ? body.indexOf("{") : -1;
      if (brace === -1) {
        scan.report("not-json", body, 'The call must be "call:", the name of the tool, and its arguments in braces.');
        continue;
      }
      found++;
      const name = body.slice(prefix.length, brace);
      const content = body.slice(brace + 1);
      const end = closingAt(content, 0, braces);
      if (end === -1) scan.report("unterminated-call", body, "The arguments do not end with a brace.", name);
      scan.reportUnknown(name, body);
      const source = end === -1 ? content : content.slice(0, end);
      scan.add([scan.call(name, dumpJson(readArguments(source, 0)))]);
    }
    return found === 0 ? text : text.slice(0, start);
  },
});

type Brackets = { readonly open: "{" | "["; readonly close: string; readonly skipsStrings: boolean };
const braces: Brackets = { open: "{", close: "}", skipsStrings: true };
const brackets: Brackets = { open: "[", close: "]", skipsStrings: true };
/** Brackets of a list inside a list: a bracket in a string also counts. */
const innerBrackets: Brackets = { ...brackets, skipsStrings: false };

const bracketMarks = { "{": /<\|"\|>|[{}]/g, "[": /<\|"\|>|[[\]]/g } as const;

/** Position of the bracket that closes one opened before `from`; -1 if none. */
function closingAt(text: string, from: number, { open, close, skipsStrings }: Brackets): number {
  const stop = bracketMarks[open];
  let depth = 1;
  stop.lastIndex = from;
  for (let match = stop.exec(text); match !== null; match = stop.exec(text)) {
    if (match[0] === open) depth++;
    else if (match[0] === close) {
      if (--depth === 0) return match.index;
    } else if (skipsStrings) {
      const end = text.indexOf(delimiter, stop.lastIndex);
      if (end === -1) return -1;
      stop.lastIndex = end + delimiter.length;
    }
  }
  return -1;
}

function skip(text: string, from: number, skipped: string): number {
  let at = from;
  while (at < text.length && skipped.includes(text[at]!)) at++;
  return at;
}

function bareEnd(text: string, from: number, stops: string): number {
  let at = from;
  while (at < text.length && !stops.includes(text[at]!)) at++;
  return at;
}

type Read = { readonly value: PythonValue; readonly end: number };

/** Reads a string, an object or a list that begins at a position; `null` if none begins there. */
function readStructure(text: string, at: number, lists: Brackets, depth: number): Read | null {
  if (depth > maxDepth) throw new PythonError("RecursionError", "nested too deep");
  if (text.startsWith(delimiter, at)) {
    const start = at + delimiter.length;
    const end = text.indexOf(delimiter, start);
    if (end === -1) return { value: text.slice(start), end: text.length };
    return { value: text.slice(start, end), end: end + delimiter.length };
  }
  const kind = text[at] === "{" ? braces : text[at] === "[" ? lists : null;
  if (kind === null) return null;
  const end = closingAt(text, at + 1, kind);
  const inside = text.slice(at + 1, end === -1 ? Math.max(at + 1, text.length - 1) : end);
  const value = kind === braces ? readArguments(inside, depth + 1) : readList(inside, depth + 1);
  return { value, end: end === -1 ? text.length : end + 1 };
}

function readArguments(text: string, depth: number): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  for (let at = skip(text, 0, " ,\n\t"); at < text.length; at = skip(text, at, " ,\n\t")) {
    const colon = text.indexOf(":", at);
    if (colon === -1) break;
    const key = pythonStrip(text.slice(at, colon));
    at = skip(text, colon + 1, " \n\t");
    if (at >= text.length) {
      result.set(key, "");
      break;
    }
    const end = bareEnd(text, at, ",}]");
    const read = readStructure(text, at, brackets, depth) ?? { value: readBare(text.slice(at, end)), end };
    result.set(key, read.value);
    at = read.end;
  }
  return result;
}

function readList(text: string, depth: number): readonly PythonValue[] {
  const items: PythonValue[] = [];
  for (let at = skip(text, 0, " ,\n\t"); at < text.length; at = skip(text, at, " ,\n\t")) {
    const end = bareEnd(text, at, ",]");
    const read = readStructure(text, at, innerBrackets, depth) ?? { value: readBare(text.slice(at, end)), end };
    // At a bracket that closes nothing, SGLang would loop forever.
    if (read.end === at) break;
    items.push(read.value);
    at = read.end;
  }
  return items;
}

function readBare(text: string): PythonValue {
  const value = pythonStrip(text);
  if (value === "true" || value === "false") return value === "true";
  const number = unlessRaised<PythonValue>(["ValueError"], () =>
    value.includes(".") ? pythonFloat(value) : pythonInt(value),
  );
  return number === undefined ? value : number;
}
