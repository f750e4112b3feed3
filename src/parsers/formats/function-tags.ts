// Tool calls as `<function=NAME>` and `<parameter=NAME>` tags: Qwen3-Coder, also `step3p5`,
// Seed-OSS (tags of its own around the same, and no parser in SGLang) and MiMo. A value is read by
// its declared type: the type names of many type systems are understood, and a value that does not
// fit its type stays text.

import { decodeHTML } from "entities/decode";

import {
  integerOf,
  narrowFloat,
  PythonError,
  pythonFloat,
  pythonInt,
  pythonLower,
  pythonStrip,
  type PythonValue,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { evaluateLiteral, literalErrors } from "../../python-semantics/literals.ts";
import { dumpJson, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { inferSchemaType } from "../typed-text.ts";
import { blocksBetween, dollar, openBlocks } from "../text-pieces.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import type { ToolCallParser } from "../tool-call-parser.ts";
import { declaredParameters, declaredSchema, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";

const functionOpening = "<function=";
const functionClosing = "</function>";
const parameterOpening = "<parameter=";
const parameterClosing = "</parameter>";

export const qwen3Coder = createFunctionTagParser(
  "qwen3_coder",
  ["<tool_call>", "</tool_call>"],
  (text, name, declared) => readValue(text.replace(/^\n/, "").replace(/\n$/, ""), name, declared),
);
export const seedOss = createFunctionTagParser("seed_oss", ["<seed:tool_call>", "</seed:tool_call>"], readPrinted);

type ReadValue = (text: string, name: string, declared: ReadonlyMap<string, JsonValue>) => PythonValue;

/** Closing tags may be missing. Names are not checked against the tools; calls are numbered. */
function createFunctionTagParser(
  name: string,
  [opening, closing]: readonly [string, string],
  read: ReadValue,
): ToolCallParser {
  return createToolCallParser({
    name,
    markers: [opening, closing],
    hints: { nesting: { [opening]: closing } },
    opening,
    isAllOrNothing: true,
    detect: (text, scan, start) => {
      const bodies = Array.from(blocksBetween(text, opening, closing), ({ body }) => body);
      if (bodies.length === 0 && text.includes(functionOpening)) bodies.push(text);
      let count = 0;
      for (const source of bodies.flatMap((body) => [...openBlocks(body, functionOpening, functionClosing)])) {
        const nameEnd = source.indexOf(">");
        if (nameEnd === -1) {
          scan.report("unterminated-call", source, 'The name of the function does not end with ">".');
          continue;
        }
        const tool = source.slice(0, nameEnd);
        scan.reportUnknown(tool, source);
        const parameters = readParameters(source.slice(nameEnd + 1), propertiesOf(tool, scan), read);
        scan.add([{ name: tool, parameters: dumpJson(parameters), toolIndex: count++ }]);
      }
      if (count === 0) scan.report("unterminated-call", text.slice(start), "The tags hold no function.");
      return text.slice(0, start);
    },
  });
}

function readParameters(
  text: string,
  declared: ReadonlyMap<string, JsonValue>,
  read: ReadValue,
): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  const stop = new RegExp(`${parameterClosing}|(?=${parameterOpening})|(?=${functionClosing})`, "g");
  for (let start = text.indexOf(parameterOpening); start !== -1;) {
    const bodyStart = start + parameterOpening.length;
    stop.lastIndex = bodyStart;
    const match = stop.exec(text);
    const end = match?.index ?? Math.max(dollar(text), bodyStart);
    const source = text.slice(bodyStart, end);
    const nameEnd = source.indexOf(">");
    if (nameEnd !== -1) {
      const name = source.slice(0, nameEnd);
      result.set(name, read(source.slice(nameEnd + 1), name, declared));
    }
    start = text.indexOf(parameterOpening, match === null ? text.length : end + match[0].length);
  }
  return result;
}

function readValue(text: string, name: string, declared: ReadonlyMap<string, JsonValue>): PythonValue {
  if (pythonLower(text) === "null") return null;
  if (!declared.has(name)) return text;
  const type = inferSchemaType(declared.get(name)) ?? "string";
  return readTyped(text, pythonLower(pythonStrip(type)), floatUnlessWhole, null);
}

/**
 * A value as Python prints it, as Seed's template writes it and its models learned: a string
 * verbatim, "None" for null where null is allowed. JSON's null is also read where a string is not
 * allowed.
 */
function readPrinted(text: string, name: string, declared: ReadonlyMap<string, JsonValue>): PythonValue {
  const schema = declared.get(name);
  if (schema === undefined) return text;
  const type = pythonLower(pythonStrip(inferSchemaType(schema) ?? "any"));
  const isText = textTypes.test(type);
  const bare = pythonStrip(text);
  if ((bare === "None" && (!isText || mayBeNull(schema))) || (bare === "null" && !isText)) return null;
  return readTyped(text, type, floatUnlessWhole, null);
}

/** True if a schema lists null beside other types. */
function mayBeNull(schema: JsonValue): boolean {
  if (!(schema instanceof Map)) return false;
  const type = schema.get("type") ?? null;
  if (type === "null" || (Array.isArray(type) && type.includes("null")) || schema.get("nullable") === true) return true;
  const choices = ["anyOf", "oneOf"].map((keyword) => schema.get(keyword) ?? null);
  return choices.some(
    (list) => Array.isArray(list) && list.some((one) => one instanceof Map && one.get("type") === "null"),
  );
}

function floatUnlessWhole(text: string): PythonValue {
  const float = pythonFloat(text);
  const isWritten = text.includes(".") || pythonLower(text).includes("e");
  return !isWritten && Number.isInteger(float.value) ? integerOf(float.value) : float;
}

/**
 * The properties of the first tool of that name; its parameters themselves if they declare no
 * properties.
 */
function propertiesOf(name: string, scan: ToolCallScan): ReadonlyMap<string, JsonValue> {
  const isFunction = (type: JsonValue | undefined): boolean => type === undefined || type === "function";
  const tool = scan.tools.find((candidate) => candidate.name === name && isFunction(candidate.definition.get("type")));
  const parameters = declaredParameters(tool);
  const properties = schemaProperties(parameters);
  return properties.size > 0 || !(parameters instanceof Map) || parameters.has("properties") ? properties : parameters;
}

const opening = "<tool_call>";
const closing = "</tool_call>";

/**
 * All tags must be closed; values are verbatim except for HTML entities. Calls of unknown tools go
 * back into the text.
 */
export const mimo = createToolCallParser({
  name: "mimo",
  markers: [opening, closing],
  hints: {
    nesting: { [opening]: closing, [functionOpening]: functionClosing, [parameterOpening]: parameterClosing },
  },
  opening,
  detect: (text, scan, start) => {
    let normalText = text.slice(0, start);
    let rest = start;
    for (const { body, end } of scan.blocks(text, opening, closing)) {
      const call = readFirstTag(body, functionOpening, functionClosing);
      if (call === null) {
        scan.report("unterminated-call", body, "The tags hold no complete function.");
      } else {
        const calls = scan.named(call.name, readClosedParameters(call.body, call.name, scan), body);
        if (calls.length === 0) normalText += text.slice(rest, end);
        scan.add(calls);
      }
      rest = end;
    }
    return normalText;
  },
});

type Tag = { readonly name: string; readonly body: string; readonly end: number };

/**
 * `<kind=NAME>body` up to the first closing tag; a name is not empty, contains no ">" and is
 * stripped.
 */
function readFirstTag(text: string, header: string, closingTag: string, from = 0): Tag | null {
  let nameStart = from;
  let nameEnd = nameStart;
  while (nameEnd === nameStart) {
    const start = text.indexOf(header, nameStart);
    if (start === -1) return null;
    nameStart = start + header.length;
    nameEnd = text.indexOf(">", nameStart);
  }
  const end = nameEnd === -1 ? -1 : text.indexOf(closingTag, nameEnd + 1);
  if (end === -1) return null;
  return { name: pythonStrip(text.slice(nameStart, nameEnd)), body: text.slice(nameEnd + 1, end), end: end + closingTag.length }; // prettier-ignore
}

function readClosedParameters(text: string, tool: string, scan: ToolCallScan): ReadonlyMap<string, PythonValue> {
  const result = new Map<string, PythonValue>();
  for (let tag = readFirstTag(text, parameterOpening, parameterClosing); tag !== null;) {
    const value = unescapeHtml(tag.body);
    const isNull = pythonLower(value) === "null";
    const type = isNull ? "null" : declaredType(tool, tag.name, scan);
    result.set(tag.name, isNull ? null : readTyped(value, type, narrow, [...literalErrors, "TypeError"]));
    tag = readFirstTag(text, parameterOpening, parameterClosing, tag.end);
  }
  return result;
}

const narrow = (text: string): PythonValue => narrowFloat(pythonFloat(text));

/**
 * Throws the reference's exception for schemas of an unexpected shape; only a type that is a string
 * passes.
 */
function declaredType(tool: string, parameter: string, scan: ToolCallScan): string {
  for (const candidate of scan.tools) {
    if (candidate.name !== tool) continue;
    const schema = declaredSchema(declaredParameters(candidate), parameter);
    if (schema === undefined) continue;
    const type = schema.has("type") ? schema.get("type")! : "string";
    if (typeof type !== "string") throw new PythonError("AttributeError", "the type is no string");
    return type;
  }
  return "string";
}

const textTypes = /^(?:string|str|text|varchar|char|enum)$/;

/**
 * Reads a value by its declared type. `readNumber` is `float(text)`, made an integer where the
 * format requires one; Python exceptions of the `ignored` classes (`null`: of any class) raised
 * while reading a literal leave the text unchanged.
 */
function readTyped(
  text: string,
  type: string,
  readNumber: (text: string) => PythonValue,
  ignored: readonly string[] | null,
): PythonValue {
  const orText = (value: PythonValue | undefined): PythonValue => (value === undefined ? text : value);
  const readLiteral = (): PythonValue => orText(unlessRaised(ignored, () => evaluateLiteral(text)));
  if (textTypes.test(type)) return text;
  if (/^(?:int|uint|long|short|unsigned)/.test(type))
    return orText(unlessRaised(["ValueError"], () => pythonInt(text)));
  if (/^(?:num|float)/.test(type)) return orText(unlessRaised(["ValueError"], () => readNumber(text)));
  if (/^(?:boolean|bool|binary)$/.test(type)) return pythonLower(text) === "true";
  if (!/^(?:object|array|arr)$|^(?:dict|list)/.test(type)) return readLiteral();
  const json = unlessRaised(["JSONDecodeError", "ValueError", "RecursionError"], () => parseJson(text));
  return json === undefined ? readLiteral() : json;
}

/** Code points that HTML replaces with others (mostly those of Windows-1252). */
const replaced: ReadonlyMap<number, string> = new Map([
  [0x00, "\ufffd"],
  [0x0d, "\r"],
  ...Array.from(
    "\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f" +
      "\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178",
    (character, index): [number, string] => [0x80 + index, character],
  ),
]);

/** A number in either base, or a name; the semicolon may be missing. */
const reference = /&(?:#(?:(?<decimal>[0-9]+)|[xX](?<hex>[0-9a-fA-F]+));?|(?<name>[^\t\n\f <&#;]{1,32};?))/gu;

export function unescapeHtml(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(reference, (whole, decimal?: string, hex?: string, name?: string) => {
    if (name !== undefined) return decodeHTML(whole);
    return numberedCharacter(hex === undefined ? Number(pythonInt(decimal!)) : parseInt(hex, 16));
  });
}

function numberedCharacter(code: number): string {
  const isSurrogate = code >= 0xd800 && code <= 0xdfff;
  if (isSurrogate || code > 0x10ffff) return "\ufffd";
  return replaced.get(code) ?? (isInvalid(code) ? "" : String.fromCodePoint(code));
}

/** Control characters and noncharacters, which are removed. */
function isInvalid(code: number): boolean {
  if (code < 0x20) return code !== 0x09 && code !== 0x0a && code !== 0x0c;
  if (code >= 0x7f && code <= 0x9f) return true;
  return (code >= 0xfdd0 && code <= 0xfdef) || (code & 0xfffe) === 0xfffe;
}
