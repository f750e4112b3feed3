// Tool calls written as Python calls with keyword arguments: a list of them, as Llama 4 writes them
// (`pythonic`), where calls are numbered by their position, and one a line, as OLMo 3 writes them
// (`olmo3`, which vLLM reads and SGLang does not; calls of unknown tools are accepted).

import { dumpJson } from "../../python-semantics/json/index.ts";
import {
  applySign,
  isSpace,
  numberOf,
  PythonError,
  pythonExceptionType,
  pythonStrip,
  type PythonValue,
} from "../../python-semantics/index.ts";
import { argumentValue, makeDict } from "../../python-semantics/literals.ts";
import { parseFirstStatementValue, type PythonNode } from "../../python-semantics/syntax.ts";
import {
  compile,
  findPattern,
  literal,
  many,
  maybe,
  one,
  type Pattern,
  type Piece,
  sequence,
} from "../pattern-matcher.ts";
import { blocksBetween } from "../text-pieces.ts";
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

/** The calls of source that is a list of them. */
function callNodes(source: string) {
  const node = parseFirstStatementValue(source);
  const nodes = node?.type === "list" ? node.items : null;
  const calls = nodes?.flatMap((call) => (call.type === "call" ? [call] : []));
  if (calls === undefined || calls.length !== nodes?.length) throw new PythonError("ValueError", "not a list of calls");
  return calls;
}

function readCalls(source: string, scan: ToolCallScan): readonly DetectedCall[] {
  return callNodes(source).flatMap(({ callee, keywords }, index) => {
    const name = callee.type === "name" ? callee.name : null;
    if (name === null || !scan.isCallable(name, source)) return [];
    const entries = keywords.map(({ name: key, value }) => [key, argumentValue(value)] as const);
    return [scan.call(name, dumpJson(makeDict(entries)), index)];
  });
}

const isLetter = (code: number): boolean => (code >= 0x41 && code <= 0x5a) || (code >= 0x61 && code <= 0x7a);
const isWord = (code: number): boolean => isLetter(code) || /[\p{L}\p{N}_]/u.test(String.fromCodePoint(code));
const isBlank = (code: number): boolean => code === 0x20 || isSpace(String.fromCodePoint(code));

/**
 * Text that looks like a list of calls; if several ends are possible, the order of attempts
 * decides.
 */
function listPattern(isWordCode: (code: number) => boolean, isBlankCode: (code: number) => boolean): Pattern {
  const spaces = many(one(isBlankCode));
  const anything = many(one(() => true));
  const name = sequence(one(isLetter), many(one(isLetter)), many(one(isWordCode)));
  const argument = (ending: Piece): Piece => sequence(name, literal("="), anything, ending);
  const argumentAndComma = argument(sequence(literal(","), spaces));
  const callBeforeComma = sequence(
    name, literal("("), many(argumentAndComma), maybe(argument(one(isBlankCode))), literal("),"), spaces,
  ); // prettier-ignore
  const lastCall = sequence(name, literal("("), many(argumentAndComma), maybe(argument(spaces)), literal(")"), spaces);
  return compile(sequence(literal("["), many(callBeforeComma), lastCall, many(lastCall), literal("]")));
}

const callList = listPattern(isWord, isBlank);

const functionCalls = "<function_calls>";
const functionCallsEnd = "</function_calls>";

/** Classes of vLLM's expressions, which differ from those of Python's own. */
const wordCharacter = /[\p{Alphabetic}\p{M}\p{Nd}\p{Join_Control}\p{Pc}]/u;
const lineList = listPattern(
  (code) => wordCharacter.test(String.fromCodePoint(code)),
  (code) => /\p{White_Space}/u.test(String.fromCodePoint(code)),
);

// oxlint-disable-next-line no-control-regex
const lineEnd = /[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/;

/** One call a line, between tags or without them. Text around the calls is dropped. */
export const olmo3 = createToolCallParser({
  name: "olmo3",
  markers: [functionCalls, functionCallsEnd],
  hints: { contentEnd: [functionCalls], nesting: { [functionCalls]: functionCallsEnd } },
  opening: null,
  hasToolCall: (text) => text.includes(functionCalls),
  isAllOrNothing: true,
  detect: (text, scan) => {
    const [block] = blocksBetween(text, functionCalls, functionCallsEnd);
    const lines = (block === undefined ? text : pythonStrip(block.body)).split(lineEnd);
    const source = `[${lines.map((line) => pythonStrip(line)).filter((line) => line !== "").join(", ")}]`; // prettier-ignore
    if (findPattern(source, lineList)?.[0] !== 0) return text;
    try {
      for (const { callee, keywords } of callNodes(source)) {
        const name = dottedName(callee);
        const entries = keywords.map(({ name: key, value }) => [key, lineValue(value)] as const);
        scan.reportUnknown(name, source);
        scan.add([scan.call(name, dumpJson(makeDict(entries)))]);
      }
    } catch (error) {
      if (pythonExceptionType(error) === null) throw error;
      scan.report("not-json", source, "The calls are not lines of Python calls with literal arguments.");
      throw error;
    }
    return "";
  },
});

function dottedName(node: PythonNode): string {
  if (node.type === "name") return node.name;
  if (node.type === "attribute") return `${dottedName(node.object)}.${node.name}`;
  throw new PythonError("UnexpectedAstError", "the name of a call is another expression");
}

const names: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

function lineValue(node: PythonNode): PythonValue {
  if (node.type === "constant") {
    if (node.value === null || typeof node.value === "string" || numberOf(node.value) !== null) return node.value;
  } else if (node.type === "list" || node.type === "tuple" || node.type === "set") {
    return node.items.map(lineValue);
  } else if (node.type === "dict") {
    return makeDict(
      node.entries.map(([key, value]) => {
        if (key?.type !== "constant") throw new PythonError("UnexpectedAstError", "a key that is no constant");
        return [key.value, lineValue(value)] as const;
      }),
    );
  } else if (node.type === "joined") {
    return node.text;
  } else if (node.type === "name" && names.has(node.name)) {
    return names.get(node.name)!;
  } else if (node.type === "unary") {
    const operand = lineValue(node.operand);
    if (typeof operand !== "boolean" && numberOf(operand) !== null) return applySign(node.operator, operand);
  }
  throw new PythonError("UnexpectedAstError", "an argument that is no literal");
}
