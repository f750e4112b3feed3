// Text that is put together of literals and names: implicit and explicit concatenation, format strings, a choice by whether
// a name is None. Not an evaluator of expressions: no name has a value, it is either a placeholder or known to be None.

import type { SyntaxNode } from "@lezer/common";

import { unescapeString } from "../../python-semantics/index.ts";
import { childrenOf, problemAt, type PythonSource, quote, readPython, textOf } from "./python-source.ts";

/** Text and placeholders in their order. */
export type Template = readonly (string | { readonly placeholder: string })[];

/** What each name of a scope stands for; `null`: it is None. */
export type TemplateNames = ReadonlyMap<string, Template | null>;

export const noNames: TemplateNames = new Map();

/** Deepest nesting of expressions that is read. The deepest of upstream is 9; Python itself ends at 200. */
export const maxDepth = 100;

/** Throws a `ConfigurationError` for everything that is not text of known names. */
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

/** `<text> if <name> is [not] None else <text>`. */
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

// The text of one Python string literal, with every prefix and escape; of a format string, text and the names it inserts.
// The parser finds where a literal and its replacements lie; it accepts unterminated strings and knows nothing of values, so
// both are settled here.

/** What a string is made of: text, and names to be replaced by values. */
type StringPart = string | { readonly name: string; readonly node: SyntaxNode };

const opening = /^(?<prefix>[a-z]*)(?<marks>"""|'''|"|')/i;

/**
 * Reads a node `String` or `FormatString`. Throws a `ConfigurationError` for bytes, for what Python refuses, for `\N{...}`
 * (names need Python's database), for halves of surrogate pairs (no file can hold them) and for a format string that
 * inserts anything but a plain name.
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

/** The text of a format string outside of its replacements, where braces are doubled. */
function readBraces(source: PythonSource, from: number, to: number, isRaw: boolean): string {
  const pattern = isRaw ? /\{\{|\}\}|[{}]/g : /\\[^]|\{\{|\}\}|[{}]/g;
  return source.text.slice(from, to).replace(pattern, (found, offset: number) => {
    // The parser takes this brace for escaped, Python for the start of a replacement.
    if (found === "\\{") throw problemAt(source, from + offset, "a backslash stands before a replacement");
    if (found.startsWith("\\")) return found;
    if (found.length === 2) return found[0]!;
    throw problemAt(source, from + offset, `a single "${found}" stands in a format string`);
  });
}
