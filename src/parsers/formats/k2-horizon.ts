// Tool calls of K2 Horizon: a block contains JSON, or a name with key, type and value tags.
// Unreadable content stays in the text: the whole text if the blocks are in a complete section,
// else the block. Reasoning at the beginning of the text is not searched. Calls are numbered.

import {
  dumpJson,
  type JsonObject,
  JsonSyntaxError,
  type JsonValue,
  parseJson,
} from "../../python-semantics/json/index.ts";
import {
  pythonExceptionType,
  PythonError,
  pythonStrip,
  type PythonValue,
  space,
  unlessRaised,
  verbatim,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { inferSchemaType } from "../typed-text.ts";

const section = "<ifm|tool_calls>";
const sectionEnd = "</ifm|tool_calls>";
const opening = "<ifm|tool_call>";
const closing = "</ifm|tool_call>";
const thoughts = ["think", "think_fast", "think_faster"].map((tag) => [`<ifm|${tag}>`, `</ifm|${tag}>`] as const);
const keyOpening = "<ifm|arg_key>";
const keyClosing = "</ifm|arg_key>";
const typeOpening = "<ifm|arg_type>";
const valueOpening = "<ifm|arg_value>";
const valueClosing = "</ifm|arg_value>";

export const k2Horizon = createToolCallParser({
  name: "k2_horizon",
  markers: [section, sectionEnd, opening, closing, keyOpening, keyClosing, valueOpening, valueClosing],
  hints: {
    contentEnd: [section, sectionEnd, opening],
    callEnds: [closing],
    nesting: { [section]: sectionEnd, [opening]: closing, [valueOpening]: valueClosing },
  },
  opening,
  detect: (text, scan) => {
    const from = endOfThoughts(text);
    const start = text.indexOf(section, from);
    const end = start === -1 ? -1 : text.indexOf(sectionEnd, start + section.length);
    if (end === -1) return text.slice(0, from) + readBlocks(text.slice(from), scan);
    const calls = readSection(text.slice(start + section.length, end), scan);
    if (calls === null) return text;
    addCalls(calls, scan);
    return text.slice(0, start) + text.slice(end + sectionEnd.length);
  },
});

const blanks = new RegExp(`${space}*`, "uy");

function skipBlanks(text: string, at: number): number {
  blanks.lastIndex = at;
  blanks.test(text);
  return blanks.lastIndex;
}

/**
 * End of reasoning at the beginning of the text; truncated reasoning extends to the end of the
 * text.
 */
function endOfThoughts(text: string): number {
  for (let at = 0; ;) {
    const start = skipBlanks(text, at);
    const thought = thoughts.find(([tag]) => text.startsWith(tag, start));
    if (thought === undefined) {
      const isCut = start < text.length && thoughts.some(([tag]) => text.length - start < tag.length && tag.startsWith(text.slice(start))); // prettier-ignore
      return isCut ? text.length : at;
    }
    const end = text.indexOf(thought[1], start + thought[0].length);
    if (end === -1) return text.length;
    at = end + thought[1].length;
  }
}

type Call = { readonly name: string; readonly given: ReadonlyMap<string, PythonValue>; readonly source: string };

/**
 * The calls of a section that contains only blocks and white space; `null` for any other section,
 * and for one without a call.
 */
function readSection(text: string, scan: ToolCallScan): readonly Call[] | null {
  const calls: Call[] = [];
  let rest = 0;
  for (const { start, body, end } of scan.blocks(text, opening, closing)) {
    const read = skipBlanks(text, rest) === start ? readBlock(body, scan) : null;
    if (read === null) return null;
    for (const call of read) calls.push(call);
    rest = end;
  }
  return calls.length > 0 && skipBlanks(text, rest) === text.length ? calls : null;
}

function readBlocks(text: string, scan: ToolCallScan): string {
  const outside: string[] = [];
  let rest = 0;
  for (const { start, body, end } of scan.blocks(text, opening, closing)) {
    outside.push(text.slice(rest, start));
    const calls = readBlock(body, scan);
    if (calls === null) outside.push(text.slice(start, end));
    else addCalls(calls, scan);
    rest = end;
  }
  outside.push(text.slice(rest));
  return outside.join("").replaceAll(section, "").replaceAll(sectionEnd, "");
}

function addCalls(calls: readonly Call[], scan: ToolCallScan): void {
  for (const { name, given, source } of calls) {
    if (scan.isCallable(name, source)) scan.add([scan.call(name, dumpJson(given), scan.calls.length)]);
  }
}

/** Reads a block; `null` if it is unreadable, which is reported. */
function readBlock(block: string, scan: ToolCallScan): readonly Call[] | null {
  const bare = pythonStrip(block);
  try {
    return /^[{[]/.test(bare) ? readJsonCalls(bare, scan) : [readTaggedCall(block, scan)];
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised === null || !["JSONDecodeError", "TypeError", "ValueError"].includes(raised)) throw error;
    const code = error instanceof JsonSyntaxError ? "not-json" : "unterminated-call";
    scan.report(code, block, "The block is neither JSON of calls nor a name with arguments in tags.");
    return null;
  }
}

const refusal = (message: string): PythonError => new PythonError("ValueError", message);

function readJsonCalls(text: string, scan: ToolCallScan): readonly Call[] {
  const value = parseJson(text);
  return (Array.isArray(value) ? value : [value]).map((item) => {
    const called = item instanceof Map && item.has("function") ? item.get("function")! : item;
    const name = called instanceof Map ? called.get("name") : undefined;
    if (!(called instanceof Map) || typeof name !== "string" || name === "") throw refusal("a call without a name");
    const given = new Map<string, PythonValue>();
    for (const [key, argument] of givenArguments(called)) {
      given.set(key, coerce(argument, declaredType(name, key, scan), false));
    }
    return { name, given, source: text };
  });
}

function givenArguments(call: JsonObject): JsonObject {
  const key = ["arguments", "parameters"].find((candidate) => call.has(candidate));
  let given: JsonValue = key === undefined ? new Map<string, JsonValue>() : call.get(key)!;
  if (typeof given === "string") given = pythonStrip(given) === "" ? new Map() : parseJson(given);
  if (given === null) return new Map();
  if (given instanceof Map) return given;
  throw refusal("arguments that are not an object");
}

function readTaggedCall(block: string, scan: ToolCallScan): Call {
  const first = block.indexOf(keyOpening);
  const name = pythonStrip(first === -1 ? block : block.slice(0, first));
  if (name === "") throw refusal("a call without a name");
  const given = new Map<string, PythonValue>();
  if (first === -1) return { name, given, source: block };
  let rest = first;
  for (const pair of argumentsIn(block, first)) {
    const key = pythonStrip(pair.key);
    if (skipBlanks(block, rest) < pair.start || key === "") throw refusal("text between arguments");
    const inline = pythonStrip(pair.type);
    const declared = declaredType(name, key, scan);
    given.set(key, coerce(pair.value, declared === null || declared === "" ? inline || null : declared, true));
    rest = pair.end;
  }
  if (skipBlanks(block, rest) < block.length) throw refusal("text behind the arguments");
  return { name, given, source: block };
}

type Argument = {
  readonly start: number;
  readonly key: string;
  /** Type tag; "" if absent. */
  readonly type: string;
  readonly value: string;
  readonly end: number;
};

const afterKey = new RegExp(
  `${verbatim(keyClosing)}${space}*(?:(${verbatim(valueOpening)})|${verbatim(typeOpening)})`,
  "gu",
);
const afterType = new RegExp(`${verbatim("</ifm|arg_type>")}${space}*${verbatim(valueOpening)}`, "gu");

/**
 * Arguments from a position on. A key extends to the first closing tag that a value follows, or a
 * type and then a value.
 */
function* argumentsIn(text: string, from: number): Generator<Argument> {
  const lastClosing = text.lastIndexOf(valueClosing);
  /** The first end of a type after the last position that was searched from. */
  let typeEnd = { start: -1, end: -1 };
  const endOfType = (at: number): typeof typeEnd => {
    if (typeEnd.start < at) {
      afterType.lastIndex = at;
      const match = afterType.exec(text);
      typeEnd = match === null ? { start: Infinity, end: Infinity } : { start: match.index, end: afterType.lastIndex };
    }
    return typeEnd;
  };
  const argumentAt = (start: number): Argument | null => {
    const keyStart = start + keyOpening.length;
    afterKey.lastIndex = keyStart;
    for (let match = afterKey.exec(text); match !== null; match = afterKey.exec(text)) {
      const at = afterKey.lastIndex;
      const typed = match[1] === undefined ? endOfType(at) : { start: at, end: at };
      if (typed.end > lastClosing) continue;
      const close = text.indexOf(valueClosing, typed.end);
      const [key, type] = [text.slice(keyStart, match.index), text.slice(at, typed.start)];
      return { start, key, type, value: text.slice(typed.end, close), end: close + valueClosing.length };
    }
    return null;
  };
  for (let start = text.indexOf(keyOpening, from); start !== -1;) {
    const argument = argumentAt(start);
    // Any later key would have the same candidates for its closing tag.
    if (argument === null) return;
    yield argument;
    start = text.indexOf(keyOpening, argument.end);
  }
}

/** Declared type; `null` if none or several are declared. */
function declaredType(tool: string, key: string, scan: ToolCallScan): string | null {
  const root = declaredParameters(scan.tools.find(({ name }) => name === tool));
  const schema = dereferenced(schemaProperties(root).get(key), root);
  if (schema === null || schema.has("anyOf") || schema.has("oneOf")) return null;
  const type = schema.get("type");
  if (Array.isArray(type) && type.filter((item) => item !== "null").length > 1) return null;
  return inferSchemaType(schema);
}

/**
 * A schema with its local references replaced; keywords beside a reference take precedence over the
 * referenced schema.
 */
function dereferenced(schema: JsonValue | undefined, root: JsonValue | undefined): JsonObject | null {
  if (!(schema instanceof Map)) return null;
  let resolved: JsonObject = schema;
  const seen = new Set<string>();
  for (let reference = resolved.get("$ref"); typeof reference === "string"; reference = resolved.get("$ref")) {
    if (seen.has(reference)) return null;
    seen.add(reference);
    const [, place, name] = /^#\/(\$defs|definitions)\/(.*)$/s.exec(reference) ?? [];
    const definitions = place === undefined || !(root instanceof Map) ? undefined : root.get(place);
    const target = definitions instanceof Map ? definitions.get(name!) : undefined;
    if (!(target instanceof Map)) return resolved;
    const beside = [...resolved].filter(([key]) => key !== "$ref");
    resolved = new Map([...target, ...beside]);
  }
  return resolved;
}

/**
 * Converts a value: text is read as JSON unless its type is "string" or "any"; arguments that come
 * from JSON are converted only if a type is declared.
 */
function coerce(value: JsonValue, type: string | null, isText: boolean): JsonValue {
  if (type === "any") return value;
  if (type === "string") return typeof value === "string" ? value : dumpJson(value);
  if (typeof value !== "string" || (type === null && !isText)) return value;
  const read = unlessRaised(["JSONDecodeError"], () => parseJson(pythonStrip(value)));
  return read === undefined ? value : read;
}
