// Text that is put together of literals and names: implicit and explicit concatenation, format strings, a choice by whether
// a name is None. Not an evaluator of expressions: no name has a value, it is either a placeholder or known to be None.

import type { SyntaxNode } from "@lezer/common";

import { childrenOf, problemAt, quote, textOf, type PythonSource } from "./python-source.ts";
import { readString } from "./read-string.ts";

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
