// Actions as text, in the form that the reference's gym accepts and shows: a call as JSON or in
// Python's notation; any other text is an utterance.

import {
  applySign,
  floatRepr,
  PythonError,
  pythonRepr,
  pythonStr,
  unlessRaised,
} from "../../python-semantics/index.ts";
import { type PythonNode, parseExpression } from "../../python-semantics/syntax.ts";
import { JsonFloat, type JsonObject, type JsonValue, parseJson } from "../../python-semantics/json/index.ts";
import { sortedKeys } from "../tables/index.ts";
import type { Requestor, SpokenMessage, ToolCall } from "./messages.ts";

/** A name followed by parentheses, on one line. */
const callShape = /^([\p{L}\p{N}_]+)\s*\(([^\n]*)\)$/u;

/** True if a text looks like a call in Python's notation; it may still be invalid. */
export function looksLikeCall(text: string): boolean {
  return callShape.test(text.trim());
}

/** The message for an action's text. Throws a `PythonError` of type "ValueError" for an empty text. */
export function parseActionText(text: string, side: Requestor): SpokenMessage {
  const trimmed = text.trim();
  if (trimmed === "") throw new PythonError("ValueError", "Action cannot be empty");
  const call = readJsonCall(trimmed) ?? unlessRaised(null, () => readPythonCall(trimmed, side)) ?? null;
  if (call !== null) return { role: side, content: null, toolCalls: [call] };
  return { role: side, content: text, toolCalls: null };
}

/** A call as JSON, which names its requestor itself; `null` if the text is not one. */
function readJsonCall(text: string): ToolCall | null {
  const value = unlessRaised(null, () => parseJson(text));
  if (!(value instanceof Map)) return null;
  const [name, given] = [value.get("name"), value.get("arguments")];
  const id = value.get("id") ?? "";
  const requestor = value.get("requestor") ?? "assistant";
  const isWhole = typeof name === "string" && given instanceof Map && typeof id === "string";
  if (!isWhole || (requestor !== "assistant" && requestor !== "user")) return null;
  return { id, name, arguments: given, requestor };
}

/**
 * A call in Python's notation; `null` if the text is not one. Positional arguments are dropped, as
 * in the reference. Throws a `PythonError` for a call that the reference refuses.
 */
function readPythonCall(text: string, requestor: Requestor): ToolCall | null {
  const [, name, given] = callShape.exec(text) ?? [];
  if (name === undefined || given === undefined) return null;
  const node = parseExpression(`f(${given.trim()})`);
  if (node.type !== "call") return null;
  const pairs = node.keywords.map(({ name: key, value }) => [key ?? "null", valueOf(value)] as const);
  return { id: "", name, arguments: new Map(pairs), requestor };
}

/** The value of a literal; a bare name gives its own text. */
function valueOf(node: PythonNode): JsonValue {
  switch (node.type) {
    case "constant":
      return plain(node.value);
    case "name":
      return node.name;
    case "list":
    case "tuple":
      return node.items.map(valueOf);
    case "dict":
      return new Map(
        node.entries.map(([key, value]) => {
          const name = key === null ? null : valueOf(key);
          return [typeof name === "string" ? name : pythonStr(name), valueOf(value)];
        }),
      );
    case "unary":
      return plain(applySign(node.operator, valueOf(node.operand)));
    default:
      throw new PythonError("ValueError", "Unsupported AST node type");
  }
}

function plain(value: unknown): JsonValue {
  const isPlain =
    value === null || value instanceof JsonFloat || ["string", "number", "bigint", "boolean"].includes(typeof value);
  if (isPlain) return value as JsonValue;
  throw new PythonError("ValueError", "no value of JSON");
}

/**
 * A call in Python's notation, with keyword arguments. Strings are quoted as in the reference,
 * which is not always valid Python.
 */
export function callText({ name, arguments: given }: Pick<ToolCall, "name" | "arguments">): string {
  const parts = sortedKeys(given).map((key) => `${key}=${argumentText(given, key)}`);
  return `${name}(${parts.join(", ")})`;
}

function argumentText(given: JsonObject, key: string): string {
  const value = given.get(key)!;
  if (typeof value === "string") return `'${value.replaceAll("'", "\\'")}'`;
  return value instanceof JsonFloat ? floatRepr(value.value) : pythonRepr(value);
}
