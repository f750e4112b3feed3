// Tool calls of Llama 4: a Python list of calls with keyword arguments, anywhere in the text. Literals only, and no negative
// numbers. Calls are numbered by their place in the list.

import {
  argumentValue,
  callsOf,
  compile,
  dumpPython,
  findPattern,
  isSpace,
  literal,
  makeDict,
  many,
  maybe,
  one,
  parseFirstStatementValue,
  type Piece,
  PythonError,
  pythonExceptionType,
  pythonStrip,
  type PythonValue,
  sequence,
} from "../../python-semantics/index.ts";
import { formatHints } from "../format-hints.ts";
import { createToolCallParser } from "../tool-call-parser.ts";
import type { ToolCallScan } from "../tool-call-scan.ts";

const startMarker = "<|python_start|>";
const endMarker = "<|python_end|>";

export const pythonic = createToolCallParser({
  name: "pythonic",
  markers: [startMarker, endMarker],
  hints: formatHints({ wordsEnd: ["[", startMarker, endMarker] }),
  hasToolCall: (text) => findPattern(withoutMarkers(pythonStrip(text)), callList) !== null,
  detect: (original, scan) => {
    const text = withoutMarkers(pythonStrip(original));
    const place = findPattern(text, callList);
    if (place === null) return text;
    const [start, end] = place;
    const source = text.slice(start, end);
    try {
      scan.add(readCalls(source, scan));
    } catch (error) {
      if (pythonExceptionType(error) === null) throw error;
      scan.report("not-json", source, "The calls are not a Python list of calls with literal arguments.");
    }
    return text.slice(0, start) + text.slice(end);
  },
});

const withoutMarkers = (text: string): string => text.replaceAll(startMarker, "").replaceAll(endMarker, "");

function readCalls(source: string, scan: ToolCallScan) {
  const node = parseFirstStatementValue(source);
  const calls = node?.type === "list" ? callsOf(node.items) : null;
  if (calls === null) throw new PythonError("ValueError", "not a list of calls");
  return calls.flatMap(({ name, keywords }, index) => {
    if (name === null || !scan.isCallable(name, source)) return [];
    const entries = keywords.map((keyword): [PythonValue, PythonValue] => [
      keyword.name,
      argumentValue(keyword.value, false),
    ]);
    return [scan.call(name, dumpPython(makeDict(entries)), index)];
  });
}

const isLetter = (code: number): boolean => (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
const isWord = (code: number): boolean => /[\p{L}\p{N}_]/u.test(String.fromCodePoint(code));
const isBlank = (code: number): boolean => isSpace(String.fromCodePoint(code));

const spaces = many(one(isBlank));
const anything = many(one(() => true));
const name = sequence(one(isLetter), many(one(isLetter)), many(one(isWord)));
const argument = (ending: Piece): Piece => sequence(name, literal("="), anything, ending);
const argumentAndComma = argument(sequence(literal(","), spaces));
const callBeforeComma = sequence(
  name, literal("("), many(argumentAndComma), maybe(argument(one(isBlank))), literal("),"), spaces,
); // prettier-ignore
const lastCall = sequence(name, literal("("), many(argumentAndComma), maybe(argument(spaces)), literal(")"), spaces);

/** Anything that looks like a list of calls; which end it takes when there are several depends on the order of trying. */
const callList = compile(sequence(literal("["), many(callBeforeComma), lastCall, many(lastCall), literal("]")));
