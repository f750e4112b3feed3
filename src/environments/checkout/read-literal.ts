// The value of a Python literal: the result of `ast.literal_eval`, as far as JSON can hold it.
// Names, calls, comprehensions and arithmetic are refused, so a new construct in a source is
// refused rather than misread.

import type { SyntaxNode } from "@lezer/common";
import { numberOf, PythonComplex, pythonNegate } from "../../python-semantics/index.ts";
import { numberValue, unescapeString } from "../../python-semantics/tokens.ts";
import type { JsonObject, JsonValue } from "../../python-semantics/json/index.ts";
import { childrenOf, problemAt, type PythonSource, quote, readPython, splitAtCommas, textOf } from "./python-source.ts";

/**
 * Reads a literal; a tuple becomes a list. Throws a `ConfigurationError` that names file and line
 * for any other expression.
 */
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

/** Throws a `ConfigurationError` if the literal is not a string. */
export function readText(source: PythonSource, node: SyntaxNode): string {
  const value = readLiteral(source, node);
  if (typeof value === "string") return value;
  throw problemAt(source, node, `this is not text (${quote(source, node)})`);
}

/** A repeated key keeps its first position and its last value, as in Python. */
function readDictionary(source: PythonSource, node: SyntaxNode, depth: number): JsonObject {
  const entries: JsonObject = new Map();
  const tokens = childrenOf(node)
    .slice(1, -1)
    .filter((child) => child.name !== ",");
  for (let index = 0; index < tokens.length; index += 3) {
    const [key, colon, value] = tokens.slice(index, index + 3);
    if (key === undefined || colon?.name !== ":" || value === undefined) {
      throw problemAt(source, key ?? node, "a dictionary holds something other than keys with values");
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

/** The keywords of a constructor; a keyword that is in neither list is refused. */
type Constructor = {
  /** Name of the constructor in this source. */
  readonly name: string;
  readonly required: readonly string[];
  readonly optional: readonly string[];
};

/**
 * The expression of each keyword. Throws a `ConfigurationError` if the node is not a call of this
 * constructor with plain keywords.
 */
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

// Text that is composed of literals and names: implicit and explicit concatenation, format strings,
// a choice on whether a name is None. Not an evaluator of expressions: names have no values; each
// is either a placeholder or known to be None.

/** Text and placeholders in source order. */
export type Template = readonly (string | { readonly placeholder: string })[];

/** Template of each name of a scope; `null` if the name is None. */
export type TemplateNames = ReadonlyMap<string, Template | null>;

const noNames: TemplateNames = new Map();

/**
 * Maximum nesting of expressions. The deepest upstream expression has 9 levels; Python's own limit
 * is 200.
 */
export const maxDepth = 100;

/** Throws a `ConfigurationError` for any expression that is not text composed of known names. */
export function readTemplate(source: PythonSource, node: SyntaxNode, names: TemplateNames, depth = 0): Template {
  if (depth > maxDepth) throw problemAt(source, node, `expressions are nested more than ${maxDepth} deep`);
  const read = (child: SyntaxNode): Template => readTemplate(source, child, names, depth + 1);
  const children = childrenOf(node);
  const [first, second, third] = children;
  switch (node.name) {
    case "String":
    case "FormatString":
      return readString(source, node).flatMap((part) =>
        typeof part === "string" ? [part] : readName(source, part.node, names),
      );
    case "ContinuedString":
      return children.flatMap(read);
    case "VariableName":
      return readName(source, node, names);
    case "ParenthesizedExpression":
      if (second !== undefined && children.length === 3) return read(second);
      break;
    case "BinaryExpression":
      if (first !== undefined && second !== undefined && third !== undefined && textOf(source, second) === "+") {
        return [...read(first), ...read(third)];
      }
      break;
    case "ConditionalExpression":
      return read(chooseBranch(source, node, names));
  }
  throw problemAt(source, node, `this is not text (${quote(source, node)})`);
}

/** Chooses the branch of `<text> if <name> is [not] None else <text>`. */
function chooseBranch(source: PythonSource, node: SyntaxNode, names: TemplateNames): SyntaxNode {
  const [whenTrue, , condition, , whenFalse] = childrenOf(node);
  const [name, is, ...rest] = condition === undefined ? [] : childrenOf(condition);
  const comparison = rest.map((child) => child.name).join(" ");
  if (
    whenTrue !== undefined &&
    whenFalse !== undefined &&
    name?.name === "VariableName" &&
    is?.name === "is" &&
    (comparison === "None" || comparison === "not None")
  ) {
    const isNone = lookUp(source, name, names) === null;
    return isNone === (comparison === "None") ? whenTrue : whenFalse;
  }
  throw problemAt(source, node, `a choice depends on more than whether a name is None (${quote(source, node)})`);
}

function readName(source: PythonSource, node: SyntaxNode, names: TemplateNames): Template {
  const value = lookUp(source, node, names);
  if (value === null) throw problemAt(source, node, `${quote(source, node)} is None where text is required`);
  return value;
}

function lookUp(source: PythonSource, node: SyntaxNode, names: TemplateNames): Template | null {
  const value = names.get(textOf(source, node));
  if (value === undefined) throw problemAt(source, node, `the name ${quote(source, node)} is not known here`);
  return value;
}

// The text of one Python string literal, with every prefix and escape; for a format string, its
// text and the names that it inserts. The parser finds the extent of a literal and its replacement
// fields, but it accepts unterminated strings and does not check values, so both are done here.

/** Part of a string: text, or a name to be replaced by its value. */
type StringPart = string | { readonly name: string; readonly node: SyntaxNode };

const opening = /^(?<prefix>[a-z]*)(?<marks>"""|'''|"|')/i;

/**
 * Reads a node `String` or `FormatString`. Throws a `ConfigurationError` for bytes, for text that
 * Python refuses, for `\N{...}` (names need Python's database), for lone surrogates (no file can
 * hold them) and for a format string that inserts anything but a plain name.
 */
function readString(source: PythonSource, node: SyntaxNode): StringPart[] {
  const text = textOf(source, node);
  const { prefix = "", marks = "" } = opening.exec(text)?.groups ?? {};
  const kind = prefix.toLowerCase();
  if (kind.includes("b")) throw problemAt(source, node, "bytes have no place in the data");
  const start = node.from + prefix.length + marks.length;
  const end = node.to - marks.length;
  if (end < start || !text.endsWith(marks) || countBackslashesBefore(source.text, end, start) % 2 === 1) {
    throw problemAt(source, node, "a string is not terminated");
  }
  const isRaw = kind.includes("r");
  const decode = (from: number, to: number): string => {
    const body = kind.includes("f") ? readBraces(source, from, to, isRaw) : source.text.slice(from, to);
    return isRaw ? body : readPython(source, node, () => unescapeString(body, "file"));
  };

  const parts: StringPart[] = [];
  let position = start;
  for (const replacement of childrenOf(node)) {
    if (replacement.name !== "FormatReplacement") continue;
    parts.push(decode(position, replacement.from), readReplacement(source, replacement));
    position = replacement.to;
  }
  parts.push(decode(position, end));
  return parts.filter((part) => part !== "");
}

function countBackslashesBefore(text: string, end: number, start: number): number {
  let count = 0;
  while (end - count > start && text[end - count - 1] === "\\") count++;
  return count;
}

function readReplacement(source: PythonSource, node: SyntaxNode): StringPart {
  const [open, name, close, ...rest] = childrenOf(node);
  if (open?.name === "{" && name?.name === "VariableName" && close?.name === "}" && rest.length === 0) {
    return { name: textOf(source, name), node: name };
  }
  throw problemAt(source, node, `a format string inserts more than a plain name (${quote(source, node)})`);
}

/** The text of a format string outside of its replacement fields, where braces are doubled. */
function readBraces(source: PythonSource, from: number, to: number, isRaw: boolean): string {
  const pattern = isRaw ? /\{\{|\}\}|[{}]/g : /\\[^]|\{\{|\}\}|[{}]/g;
  return source.text.slice(from, to).replace(pattern, (found, offset: number) => {
    // The parser takes this brace as escaped, but Python takes it as the start of a replacement
    // field.
    if (found === "\\{") throw problemAt(source, from + offset, "a backslash precedes a replacement");
    if (found.startsWith("\\")) return found;
    if (found.length === 2) return found[0]!;
    throw problemAt(source, from + offset, `a single "${found}" stands in a format string`);
  });
}
