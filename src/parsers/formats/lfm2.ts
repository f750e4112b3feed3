// Tool calls of LFM2: JSON, or Python calls with keyword arguments, between markers. Calls are
// numbered by their position in their block. Source that Python refuses is rewritten in a few ways
// that keep its meaning, then read call by call.

import { dumpJson, JsonFloat, JsonSyntaxError } from "../../python-semantics/json/index.ts";
import {
  applySign,
  numberOf,
  PythonDict,
  PythonError,
  pythonExceptionType,
  pythonStrip,
  PythonTuple,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { literalErrors, makeDict } from "../../python-semantics/literals.ts";
import { parseFirstStatementValue, type PythonNode } from "../../python-semantics/syntax.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { DetectedCall, ToolCallScan } from "../tool-call-scan.ts";
import { isReservedStandIn, ParseBudget, rewrites, splitCalls } from "./lfm2-rewrites.ts";

const opening = "<|tool_call_start|>";
const closing = "<|tool_call_end|>";

/** A block without a call is skipped. */
export const lfm2 = createToolCallParser({
  name: "lfm2",
  markers: [opening, closing],
  hints: { nesting: { [opening]: closing } },
  opening,
  detect: (text, scan, start) => {
    const budget = new ParseBudget(text.length);
    for (const { body } of scan.blocks(text, opening, closing)) scan.add(readBlock(pythonStrip(body), scan, budget));
    return pythonStrip(text.slice(0, start));
  },
});

function readBlock(content: string, scan: ToolCallScan, budget: ParseBudget): readonly DetectedCall[] {
  const isJson = content.startsWith("[{") || content.startsWith("{");
  if (isJson) {
    const value = scan.tryJson(content);
    const calls = value === undefined ? [] : scan.callsIn(value, content);
    if (calls.length > 0) return calls;
  }
  try {
    return readCalls(content, scan, budget);
  } catch (error) {
    if (pythonExceptionType(error) === null || error instanceof JsonSyntaxError) throw error;
    if (!isJson) {
      scan.report("not-json", content, "The call is neither JSON nor a Python call with literal arguments.");
    }
    return [];
  }
}

type CallNode = Extract<PythonNode, { type: "call" }>;

/** `isRenamed`: reserved argument names are replaced with stand-ins. */
type FoundCall = { readonly node: CallNode; readonly isRenamed: boolean };

function readCalls(source: string, scan: ToolCallScan, budget: ParseBudget): readonly DetectedCall[] {
  const found = findCalls(source, budget);
  return found.flatMap(({ node, isRenamed }, index) => {
    const name = dottedName(node.callee);
    if (name === null || !scan.isCallable(name, source)) return [];
    const parameters = unlessRaised(["ValueError"], () => readArguments(node));
    const json =
      parameters && unlessRaised(["ValueError", "TypeError"], () => finiteJson(restored(parameters, isRenamed)));
    if (json !== undefined) return [scan.call(name, json, index)];
    scan.report("not-json", source, "Arguments must be named and be literals that JSON has.", name);
    return [];
  });
}

/** The calls of a block as nodes. Throws for a block that consists only of other code. */
function findCalls(source: string, budget: ParseBudget): readonly FoundCall[] {
  const whole = parsed(source, budget);
  if (whole === null) {
    const salvaged = salvagedCalls(source, budget);
    if (salvaged.length === 0) throw new PythonError("SyntaxError", "not Python, and nothing like it");
    return salvaged;
  }
  const { value, isRenamed } = whole;
  const nodes = value?.type === "list" ? value.items : value === null ? [] : [value];
  return nodes.map((node) => {
    if (node.type !== "call") throw new PythonError("ValueError", "not a list of calls");
    return { node, isRenamed };
  });
}

type Parsed = { readonly value: PythonNode | null; readonly isRenamed: boolean };

/** The parsed source, or the first of its rewrites that Python accepts; `null` if none. */
function parsed(source: string, budget: ParseBudget): Parsed | null {
  const direct = tryParse(source);
  if (direct !== undefined) return { value: direct, isRenamed: false };
  for (const { text, isRenamed } of rewrites(source, budget)) {
    const value = tryParse(text);
    if (value !== undefined) return { value, isRenamed };
  }
  return null;
}

const tryParse = (source: string): PythonNode | null | undefined =>
  unlessRaised(literalErrors, () => parseFirstStatementValue(source));

/** Single calls of a block that is unreadable as a whole, split in the way that yields more of them. */
function salvagedCalls(source: string, budget: ParseBudget): readonly FoundCall[] {
  let best: readonly FoundCall[] = [];
  for (const respectsStrings of [true, false]) {
    const segments = splitCalls(source, respectsStrings);
    if (segments.length < 2) continue;
    const calls = segments.flatMap((segment) => {
      const whole = parsed(segment, budget);
      return whole?.value?.type === "call" ? [{ node: whole.value, isRenamed: whole.isRenamed }] : [];
    });
    if (calls.length > best.length) best = calls;
  }
  return best;
}

function dottedName(node: PythonNode): string | null {
  if (node.type === "name") return node.name;
  const object = node.type === "attribute" ? dottedName(node.object) : null;
  return node.type !== "attribute" || object === null ? null : `${object}.${node.name}`;
}

type Entry = readonly [PythonValue, PythonValue];

/** Throws a "ValueError" for positional arguments and for values that are not literals. */
function readArguments({ keywords, hasPositional }: CallNode): readonly Entry[] {
  if (hasPositional) throw new PythonError("ValueError", "an argument without a name");
  return keywords.flatMap(({ name, value: node }): readonly Entry[] => {
    const value = literalValue(node);
    if (name !== null) return [[name, value]];
    if (!(value instanceof PythonDict)) throw new PythonError("ValueError", "unpacking what is no dict");
    return Array.from(value.entries.values(), ({ key, value: inner }): Entry => [key, inner]);
  });
}

const words: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ["true", true],
  ["false", false],
  ["null", null],
]);

function literalValue(node: PythonNode): PythonValue {
  switch (node.type) {
    case "constant":
      if (node.value === null || typeof node.value === "string" || numberOf(node.value) !== null) return node.value;
      break;
    case "joined":
      return node.text;
    case "list":
    case "set":
      return node.items.map(literalValue);
    case "tuple":
      return new PythonTuple(node.items.map(literalValue));
    case "dict": {
      const entries = node.entries.flatMap(([key, value]): readonly Entry[] =>
        key === null ? [] : [[literalValue(key), literalValue(value)]],
      );
      return makeDict(entries);
    }
    case "name": {
      const word = words.get(node.name);
      if (word !== undefined) return word;
      break;
    }
    case "unary": {
      const operand = literalValue(node.operand);
      if (typeof operand !== "boolean" && numberOf(operand) !== null) return applySign(node.operator, operand);
      break;
    }
    case "attribute":
    case "call":
    case "binary":
    case "other":
      break;
    default:
      return node satisfies never;
  }
  throw new PythonError("ValueError", "an argument that is no literal");
}

/** Arguments under the names that the model wrote. */
function restored(entries: readonly Entry[], isRenamed: boolean): PythonDict {
  const dict = makeDict(entries);
  if (!isRenamed) return dict;
  return makeDict(
    Array.from(dict.entries.values(), ({ key, value }): Entry => [
      typeof key === "string" ? (isReservedStandIn(key) ?? key) : key,
      value,
    ]),
  );
}

/** JSON without infinities, to which numbers that overflow would be converted. */
function finiteJson(value: PythonDict): string {
  if (!isFinite(value)) throw new PythonError("ValueError", "an infinite number");
  return dumpJson(value);
}

function isFinite(value: PythonValue): boolean {
  if (value instanceof JsonFloat) return Number.isFinite(value.value);
  if (Array.isArray(value)) return value.every(isFinite);
  if (value instanceof PythonTuple) return value.items().every(isFinite);
  if (value instanceof PythonDict) {
    return Array.from(value.entries.values()).every((entry) => isFinite(entry.key) && isFinite(entry.value));
  }
  return true;
}
