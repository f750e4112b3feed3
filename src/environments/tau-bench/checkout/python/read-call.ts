// The arguments of a call that we know the meaning of: a constructor with keywords alone. The call is never made.

import type { SyntaxNode } from "@lezer/common";

import { childrenOf, problemAt, quote, textOf, type PythonSource } from "./python-source.ts";

/** What a constructor takes; a keyword that is in neither list is refused. */
export type Constructor = {
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
  for (const [name, operator, value, ...rest] of splitArguments(argumentList)) {
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

function splitArguments(argumentList: SyntaxNode): SyntaxNode[][] {
  const items: SyntaxNode[][] = [[]];
  for (const child of childrenOf(argumentList).slice(1, -1)) {
    if (child.name === ",") items.push([]);
    else items.at(-1)?.push(child);
  }
  return items.filter((item) => item.length > 0);
}
