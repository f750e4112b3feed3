// The nested tags of MiniMax M3 as a value: objects, lists of `<item>`, leaves by their declared type. Throws a
// `PythonError` for tags that do not nest.

import type { JsonObject, JsonValue } from "../../lib/json/index.ts";
import { PythonError, pythonLower, pythonStrip } from "../../lib/python/index.ts";
import { narrowFloat, pythonFloat, pythonInt } from "../python/number.ts";
import type { PythonValue } from "../python/value.ts";

/** Stands before every tag. */
export const tagPrefix = "]<]minimax[>[";

/** Under construction: containers grow while their tags are open. */
type Node =
  | Exclude<PythonValue, readonly PythonValue[] | ReadonlyMap<string, PythonValue>>
  | Node[]
  | Map<string, Node>;
type Frame = { readonly tag: string; readonly schema: JsonObject | null; readonly value: Node };

export function readMinimaxTree(body: string, parameters: JsonValue): PythonValue {
  const schema = parameters instanceof Map ? parameters : null;
  const chunks = body.split(tagPrefix).map((chunk) => pythonStrip(chunk)).filter((chunk) => chunk !== ""); // prettier-ignore
  const root: Node = hasType(schema, ["array"]) && chunks[0]?.startsWith("<item>") === true ? [] : new Map();
  const stack: Frame[] = [{ tag: "", schema, value: root }];
  for (const chunk of chunks) {
    if (chunk.startsWith("</")) closeTag(chunk, stack);
    else if (chunk.startsWith("<")) stack.push(openTag(chunk, stack.at(-1)!));
  }
  return root;
}

function closeTag(chunk: string, stack: Frame[]): void {
  const end = chunk.indexOf(">", 2);
  const tag = pythonStrip(end === -1 ? chunk.slice(2) : chunk.slice(2, end));
  const frame = stack.at(-1)!;
  if (stack.length === 1 || frame.tag !== tag) throw new PythonError("ValueError", `closing tag out of place: ${tag}`);
  stack.pop();
  assign(stack.at(-1)!.value, frame.tag, frame.value);
}

function openTag(chunk: string, parent: Frame): Frame {
  const end = chunk.indexOf(">");
  if (end === -1) throw new PythonError("ValueError", "substring not found");
  const tag = pythonStrip(chunk.slice(1, end));
  const text = chunk.slice(end + 1);
  const schema = childSchema(parent.schema, tag, parent.value);
  if (text !== "" || isScalar(schema)) return { tag, schema, value: readLeaf(text, typesOf(schema)) };
  return { tag, schema, value: hasType(schema, ["array"]) ? [] : new Map() };
}

/** A tag that comes again makes a list; a parent that has text already cannot have children. */
function assign(parent: Node, tag: string, value: Node): void {
  if (Array.isArray(parent)) {
    parent.push(value);
    return;
  }
  if (!(parent instanceof Map)) throw new PythonError("TypeError", "a value with text has no children");
  const existing = parent.get(tag);
  if (!parent.has(tag)) parent.set(tag, value);
  else if (Array.isArray(existing)) existing.push(value);
  else parent.set(tag, [existing!, value]);
}

function childSchema(parent: JsonObject | null, tag: string, value: Node): JsonObject | null {
  if (parent === null) return null;
  if (hasType(parent, ["array"]) && tag === "item") return itemSchema(parent, Array.isArray(value) ? value.length : 0);
  const properties = parent.get("properties");
  if (properties instanceof Map && properties.has(tag)) return objectOrNull(properties.get(tag));
  return objectOrNull(parent.get("additionalProperties"));
}

function itemSchema(schema: JsonObject, index: number): JsonObject | null {
  const prefix = schema.get("prefixItems");
  if (Array.isArray(prefix) && index < prefix.length) return objectOrNull(prefix[index]);
  const others = objectOrNull(schema.get("additionalItems")) ?? objectOrNull(schema.get("items"));
  if (others !== null) return others;
  return Array.isArray(prefix) ? objectOrNull(prefix.at(-1)) : null;
}

const objectOrNull = (value: JsonValue | undefined): JsonObject | null => (value instanceof Map ? value : null);

function typesOf(schema: JsonObject | null): readonly string[] {
  const types = [schema?.get("type")].flat();
  return types.filter((type) => typeof type === "string").map(pythonLower);
}

const hasType = (schema: JsonObject | null, types: readonly string[]): boolean =>
  typesOf(schema).some((type) => types.includes(type));

const textTypes = ["string", "str"];
const integerTypes = ["integer", "int"];
const numberTypes = ["number", "float"];
const booleanTypes = ["boolean", "bool"];
const scalarTypes = [...textTypes, ...integerTypes, ...numberTypes, ...booleanTypes, "null"];

const isScalar = (schema: JsonObject | null): boolean =>
  hasType(schema, scalarTypes) && !hasType(schema, ["object", "array"]);

function readLeaf(text: string, types: readonly string[]): Node {
  const isDeclared = (names: readonly string[]): boolean => types.some((type) => names.includes(type));
  const isNullable = types.includes("null");
  if (isDeclared(textTypes) && !isNullable) return text;
  if (isNullable && ["null", "Null", "NULL", ""].includes(text)) return null;
  const number =
    (isDeclared(integerTypes) ? numberOrNull(() => pythonInt(text)) : null) ??
    (isDeclared(numberTypes) ? numberOrNull(() => narrowFloat(pythonFloat(text))) : null);
  if (number !== null) return number;
  if (isDeclared(booleanTypes)) {
    const word = pythonStrip(pythonLower(text));
    if (["true", "1", "yes", "on"].includes(word)) return true;
    if (["false", "0", "no", "off"].includes(word)) return false;
  }
  return text;
}

function numberOrNull<Value extends Node>(read: () => Value): Value | null {
  try {
    return read();
  } catch (error) {
    if (error instanceof PythonError && error.pythonType === "ValueError") return null;
    throw error;
  }
}
