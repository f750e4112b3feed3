// Python source that is a list of calls with literal keyword arguments, as two formats write their tool calls.

import { JsonFloat } from "../json/index.ts";
import { PythonError } from "../python-error.ts";
import { negate } from "./literal.ts";
import type { PythonKeyword, PythonNode } from "./syntax-tree.ts";
import { makeDict, PythonTuple, type PythonValue } from "./value.ts";

export type PythonCall = { readonly name: string | null; readonly keywords: readonly PythonKeyword[] };

/** The calls of nodes; `null` when one of them is no call. A callee that is no plain name gives the name `null`. */
export function callsOf(nodes: readonly PythonNode[]): readonly PythonCall[] | null {
  const calls: PythonCall[] = [];
  for (const node of nodes) {
    if (node.type !== "call") return null;
    calls.push({ name: node.callee.type === "name" ? node.callee.name : null, keywords: node.keywords });
  }
  return calls;
}

/** Constants, lists and dicts of constants; with `isLenient` also tuples and negative numbers. Throws a "ValueError". */
export function argumentValue(node: PythonNode, isLenient: boolean): PythonValue {
  const read = (inner: PythonNode): PythonValue => argumentValue(inner, isLenient);
  if (node.type === "constant") return node.value;
  if (node.type === "list") return node.items.map(read);
  if (node.type === "dict") {
    const entries = node.entries.filter(([key]) => key !== null || !isLenient);
    return makeDict(entries.map(([key, value]) => [dictKey(key, isLenient), read(value)]));
  }
  if (isLenient && node.type === "tuple") return new PythonTuple(node.items.map(read));
  if (isLenient && node.type === "unary" && node.operator === "-") {
    const operand = read(node.operand);
    const isNumber = ["number", "bigint", "boolean"].includes(typeof operand) || operand instanceof JsonFloat;
    if (isNumber) return negate(operand);
  }
  throw new PythonError("ValueError", "an argument that is no literal");
}

function dictKey(node: PythonNode | null, isLenient: boolean): PythonValue {
  if (node !== null && (isLenient || node.type === "constant")) return argumentValue(node, isLenient);
  throw new PythonError("AttributeError", "a key that is no constant");
}
