// Tool calls of dots: `invoke` tags with parameters in a block, or a JSON object in it. A value is
// read by its declared type; references into the schema and alternatives are followed.

import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import {
  isTruthy,
  pythonExceptionType,
  pythonInt,
  pythonLower,
  pythonRepr,
  pythonStrip,
  type PythonValue,
  space,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { createToolCallParser } from "../tool-call-format.ts";
import { declaredParameters, schemaProperties, type ToolCallScan } from "../tool-call-scan.ts";
import { readJson } from "../typed-text.ts";
import { readNumber } from "./spark25.ts";

const opening = "<dots_function_call>";
const closing = "</dots_function_call>";
const ignored = ["JSONDecodeError", "ValueError", "ValidationError", "TypeError"];

export const dots = createToolCallParser({
  name: "dots",
  markers: [opening, closing],
  hints: {
    nesting: { [opening]: closing, "<invoke name=": "</invoke>", "<parameter name=": "</parameter>" },
  },
  opening,
  detect: (text, scan, start) => {
    for (const { body } of scan.blocks(text, opening, closing)) readBlock(pythonStrip(body), scan);
    return pythonStrip(text.slice(0, start));
  },
});

function readBlock(block: string, scan: ToolCallScan): void {
  if (block.startsWith("<invoke")) {
    let count = 0;
    for (const { name, body } of tagsOf(block, "invoke")) {
      count++;
      scan.add(scan.named(name, readParameters(name, body, scan), block));
    }
    if (count === 0) scan.report("unterminated-call", block, "The tags hold no complete call.");
    return;
  }
  try {
    const value = scan.readJson(block);
    if (value instanceof Map) scan.add(scan.callsIn(value, block));
    else scan.report("not-an-object", block, "A call must be a JSON object.");
  } catch (error) {
    const raised = pythonExceptionType(error);
    if (raised === null || !ignored.includes(raised)) throw error;
  }
}

type Tag = { readonly name: string; readonly body: string };

/** `<tag name=NAME>body</tag>`, the name in quotes or without. */
function* tagsOf(text: string, tag: string): Generator<Tag> {
  const header = new RegExp(`<${tag}${space}+name${space}*=`, "gu");
  const end = `</${tag}>`;
  for (let match = header.exec(text); match !== null; match = header.exec(text)) {
    const nameStart = header.lastIndex;
    const nameEnd = text.indexOf(">", nameStart);
    if (nameEnd === nameStart) continue;
    const bodyEnd = nameEnd === -1 ? -1 : text.indexOf(end, nameEnd + 1);
    if (bodyEnd === -1) return;
    yield { name: unquoted(pythonStrip(text.slice(nameStart, nameEnd))), body: text.slice(nameEnd + 1, bodyEnd) };
    header.lastIndex = bodyEnd + end.length;
  }
}

function unquoted(name: string): string {
  const isQuoted = name.length >= 2 && name[0] === name.at(-1) && (name[0] === '"' || name[0] === "'");
  return isQuoted ? name.slice(1, -1) : name;
}

function readParameters(tool: string, body: string, scan: ToolCallScan): ReadonlyMap<string, PythonValue> {
  const schema = declaredParameters(scan.tools.find(({ name }) => name === tool));
  const properties = schemaProperties(schema);
  const declared = schema instanceof Map ? schema.get("$defs") : undefined;
  const definitions = declared instanceof Map ? declared : new Map<string, JsonValue>();
  const result = new Map<string, PythonValue>();
  for (const { name, body: value } of tagsOf(body, "parameter")) {
    const type = resolveType(properties.get(name), definitions);
    result.set(name, readValue(pythonStrip(value), typeName(type)));
  }
  return result;
}

/** Maximum depth to which references and alternatives are followed. */
const deepest = 10;

/**
 * Type that the schema names; among alternatives, the first that is not "null". `undefined` if none
 * is named.
 */
function resolveType(schema: JsonValue | undefined, definitions: JsonObject, depth = 0): JsonValue | undefined {
  if (!(schema instanceof Map) || depth > deepest) return undefined;
  if (schema.has("type")) return schema.get("type")!;
  const reference = schema.get("$ref");
  if (typeof reference === "string" && reference.startsWith("#/$defs/")) {
    return resolveType(definitions.get(reference.slice(reference.lastIndexOf("/") + 1)), definitions, depth + 1);
  }
  for (const keyword of ["anyOf", "oneOf", "allOf"]) {
    const alternatives = schema.get(keyword);
    if (!Array.isArray(alternatives)) continue;
    for (const alternative of alternatives) {
      if (alternative instanceof Map && alternative.get("type") === "null") continue;
      const type = resolveType(alternative, definitions, depth + 1) ?? null;
      if (type !== null) return type;
    }
  }
  return undefined;
}

function typeName(type: JsonValue | undefined): string {
  if (type === undefined || !isTruthy(type)) return "string";
  const chosen = Array.isArray(type) ? (type.find((name) => name !== "null") ?? "string") : type;
  return pythonLower(typeof chosen === "string" ? chosen : pythonRepr(chosen));
}

function readValue(text: string, type: string): PythonValue {
  if (pythonLower(text) === "null") return null;
  switch (type) {
    case "string":
    case "str":
    case "text":
      return text;
    case "integer":
    case "int":
      return unlessRaised(["ValueError"], () => pythonInt(text)) ?? text;
    case "number":
    case "float":
      return unlessRaised(["ValueError"], () => readNumber(text)) ?? text;
    case "boolean":
    case "bool":
      return ["true", "1"].includes(pythonLower(text));
    default: {
      const value = unlessRaised(["ValueError"], () => readJson(text));
      return value === undefined ? text : value;
    }
  }
}
