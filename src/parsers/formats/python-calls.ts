// Tool calls written as a list of Python calls with keyword arguments, as Llama 4 writes them
// (`pythonic`). Calls are numbered by their position in the list.

import { dumpJson } from "../../python-semantics/json/index.ts";
import { isSpace, PythonError, pythonExceptionType, pythonStrip } from "../../python-semantics/index.ts";
import { argumentValue, makeDict } from "../../python-semantics/literals.ts";
import { parseFirstStatementValue } from "../../python-semantics/syntax.ts";
import { compile, findPattern, literal, many, maybe, one, type Piece, sequence } from "../pattern-matcher.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { DetectedCall, ToolCallScan } from "../tool-call-scan.ts";

const startMarker = "<|python_start|>";
const endMarker = "<|python_end|>";

/**
 * A list of calls anywhere in the text. Only literals, without negative numbers; one other argument
 * drops all calls.
 */
export const pythonic = createToolCallParser({
  name: "pythonic",
  markers: [startMarker, endMarker],
  hints: { contentEnd: ["[", startMarker, endMarker] },
  opening: null,
  signs: [startMarker],
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

function readCalls(source: string, scan: ToolCallScan): readonly DetectedCall[] {
  const node = parseFirstStatementValue(source);
  const nodes = node?.type === "list" ? node.items : null;
  const calls = nodes?.flatMap((call) => (call.type === "call" ? [call] : []));
  if (calls === undefined || calls.length !== nodes?.length) throw new PythonError("ValueError", "not a list of calls");
  return calls.flatMap(({ callee, keywords }, index) => {
    const name = callee.type === "name" ? callee.name : null;
    if (name === null || !scan.isCallable(name, source)) return [];
    const entries = keywords.map(({ name: key, value }) => [key, argumentValue(value)] as const);
    return [scan.call(name, dumpJson(makeDict(entries)), index)];
  });
}

const isLetter = (code: number): boolean => (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
const isWord = (code: number): boolean => isLetter(code) || /[\p{L}\p{N}_]/u.test(String.fromCodePoint(code));
const isBlank = (code: number): boolean => code === 0x20 || isSpace(String.fromCodePoint(code));

const spaces = many(one(isBlank));
const anything = many(one(() => true));
const name = sequence(one(isLetter), many(one(isLetter)), many(one(isWord)));
const argument = (ending: Piece): Piece => sequence(name, literal("="), anything, ending);
const argumentAndComma = argument(sequence(literal(","), spaces));
const callBeforeComma = sequence(
  name, literal("("), many(argumentAndComma), maybe(argument(one(isBlank))), literal("),"), spaces,
); // prettier-ignore
const lastCall = sequence(name, literal("("), many(argumentAndComma), maybe(argument(spaces)), literal(")"), spaces);

/**
 * Text that looks like a list of calls; if several ends are possible, the order of attempts
 * decides.
 */
const callList = compile(sequence(literal("["), many(callBeforeComma), lastCall, many(lastCall), literal("]")));
