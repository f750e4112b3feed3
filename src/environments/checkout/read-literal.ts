// The value of a Python literal: what `ast.literal_eval` would give and JSON can hold. Names, calls, comprehensions and
// arithmetic are refused, so a source can say something new only by being refused.

import type { SyntaxNode } from "@lezer/common";

import { numberOf, numberValue, PythonComplex, pythonNegate } from "../../python-semantics/index.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { childrenOf, problemAt, quote, readPython, textOf, type PythonSource, splitAtCommas } from "./python-source.ts";
import { maxDepth, noNames, readTemplate } from "./read-template.ts";

/** A tuple becomes a list. Throws a `ConfigurationError` that names file and line for everything that is no such literal. */
export function readLiteral(source: PythonSource, node: SyntaxNode, depth = 0): JsonValue {
  if (depth > maxDepth) throw problemAt(source, node, `expressions are nested more than ${maxDepth} deep`);
  const children = childrenOf(node);
  switch (node.name) {
    case "String":
    case "FormatString":
    case "ContinuedString":
    case "BinaryExpression":
      return readTemplate(source, node, noNames, depth)
        .map((part) => (typeof part === "string" ? part : ""))
        .join("");
    case "Number":
      return readNumber(source, node);
    case "Boolean":
      return textOf(source, node) === "True";
    case "None":
      return null;
    case "ArrayExpression":
    case "TupleExpression":
      return readItems(source, node).map((item) => readLiteral(source, item, depth + 1));
    case "DictionaryExpression":
      return readDictionary(source, node, depth);
    case "ParenthesizedExpression":
      if (children.length === 3 && children[1] !== undefined) return readLiteral(source, children[1], depth + 1);
      break;
    case "UnaryExpression":
      return readSigned(source, node, depth);
  }
  throw problemAt(source, node, `this is not a literal (${quote(source, node)})`);
}

/** The expressions between the brackets of a list or tuple. */
export function readItems(source: PythonSource, node: SyntaxNode): SyntaxNode[] {
  if (node.name !== "ArrayExpression" && node.name !== "TupleExpression") {
    throw problemAt(source, node, `this is not a list (${quote(source, node)})`);
  }
  return childrenOf(node)
    .slice(1, -1)
    .filter((child) => child.name !== ",");
}

/** Throws a `ConfigurationError` when the literal is something else than text. */
export function readText(source: PythonSource, node: SyntaxNode): string {
  const value = readLiteral(source, node);
  if (typeof value === "string") return value;
  throw problemAt(source, node, `this is not text (${quote(source, node)})`);
}

/** As in Python, a repeated key has its first place and its last value. */
function readDictionary(source: PythonSource, node: SyntaxNode, depth: number): JsonObject {
  const entries: JsonObject = new Map();
  const tokens = childrenOf(node)
    .slice(1, -1)
    .filter((child) => child.name !== ",");
  for (let index = 0; index < tokens.length; index += 3) {
    const [key, colon, value] = tokens.slice(index, index + 3);
    if (key === undefined || colon?.name !== ":" || value === undefined) {
      throw problemAt(source, key ?? node, "a dictionary holds something else than keys with values");
    }
    const name = readLiteral(source, key, depth + 1);
    if (typeof name !== "string") throw problemAt(source, key, `a key is not text (${quote(source, key)})`);
    entries.set(name, readLiteral(source, value, depth + 1));
  }
  return entries;
}

function readNumber(source: PythonSource, node: SyntaxNode): JsonValue {
  const value = readPython(source, node, () => numberValue(textOf(source, node)));
  if (!(value instanceof PythonComplex)) return value;
  throw problemAt(source, node, `a complex number has no place in the data (${quote(source, node)})`);
}

function readSigned(source: PythonSource, node: SyntaxNode, depth: number): JsonValue {
  const [sign, operand] = childrenOf(node);
  const operator = sign === undefined ? "" : textOf(source, sign);
  if (operand !== undefined && (operator === "-" || operator === "+")) {
    const value = readLiteral(source, operand, depth + 1);
    const number = typeof value === "boolean" ? null : numberOf(value);
    if (number !== null) return operator === "-" ? pythonNegate(number) : number;
  }
  throw problemAt(source, node, `this is not a number (${quote(source, node)})`);
}

/** What a constructor takes; a keyword that is in neither list is refused. */
type Constructor = {
  /** The name it is called by in this source. */
  readonly name: string;
  readonly required: readonly string[];
  readonly optional: readonly string[];
};

/** The expression of each keyword. Throws a `ConfigurationError` when the node is another call, or another kind of call. */
export function readCall(source: PythonSource, node: SyntaxNode, constructor: Constructor): Map<string, SyntaxNode> {
  const [callee, argumentList] = childrenOf(node);
  const isCall = node.name === "CallExpression" && callee?.name === "VariableName";
  if (!isCall || argumentList === undefined || textOf(source, callee) !== constructor.name) {
    throw problemAt(source, node, `this is not a call of ${constructor.name} (${quote(source, node)})`);
  }
  const values = new Map<string, SyntaxNode>();
  for (const [name, operator, value, ...rest] of splitAtCommas(
    childrenOf(argumentList).slice(1, -1),
    ({ name: kind }) => kind === ",",
  )) {
    if (name?.name !== "VariableName" || operator?.name !== "AssignOp" || value === undefined || rest.length > 0) {
      throw problemAt(source, name ?? argumentList, `${constructor.name} is called with more than plain keywords`);
    }
    const keyword = textOf(source, name);
    if (!constructor.required.includes(keyword) && !constructor.optional.includes(keyword)) {
      throw problemAt(source, name, `${constructor.name} is given ${JSON.stringify(keyword)}, which is not known`);
    }
    if (values.has(keyword)) throw problemAt(source, name, `${constructor.name} is given "${keyword}" twice`);
    values.set(keyword, value);
  }
  const missing = constructor.required.find((keyword) => !values.has(keyword));
  if (missing !== undefined) throw problemAt(source, node, `${constructor.name} is not given "${missing}"`);
  return values;
}
