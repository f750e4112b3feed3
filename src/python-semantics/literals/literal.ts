// Python's `ast.literal_eval`: literals and containers of them, signed and complex numbers, `set()`, and nothing else.

import { JsonFloat } from "../json/index.ts";
import { PythonError } from "../python-error.ts";
import { parseExpression } from "./syntax.ts";
import type { PythonNode } from "./syntax-tree.ts";
import { normalInteger } from "../number-text.ts";
import { makeDict, makeSet, PythonComplex, PythonTuple, type PythonValue } from "./value.ts";

/** `ast.literal_eval(text)`. Throws a `PythonError` ("SyntaxError", "ValueError", "TypeError"). */
export function evaluateLiteral(text: string): PythonValue {
  return evaluate(parseExpression(text.replace(/^[ \t]+/, "")));
}

/** The Python exceptions a malformed literal may raise, those with a class of their own below them included. */
export const literalErrors: readonly string[] = ["SyntaxError", "IndentationError", "ValueError", "UnicodeEncodeError"];

function evaluate(node: PythonNode): PythonValue {
  switch (node.type) {
    case "constant":
      return node.value;
    case "list":
      return node.items.map(evaluate);
    case "tuple":
      return new PythonTuple(node.items.map(evaluate));
    case "set":
      return makeSet(node.items.map(evaluate));
    case "dict":
      return makeDict(
        node.entries.map(([key, value]) => [key === null ? malformed() : evaluate(key), evaluate(value)]),
      );
    case "call": {
      const isEmptySet = node.callee.type === "name" && node.callee.name === "set" && node.keywords.length === 0;
      return isEmptySet && !node.hasPositional ? makeSet([]) : malformed();
    }
    case "unary":
      return signed(node);
    case "binary": {
      const left = signed(node.left);
      const right = node.right.type === "constant" ? node.right.value : null;
      const isSum = node.operator === "+" || node.operator === "-";
      if (!isSum || !(right instanceof PythonComplex) || left instanceof PythonComplex) return malformed();
      const sign = node.operator === "+" ? 1 : -1;
      return new PythonComplex(toNumber(left) + sign * right.real, sign * right.imaginary);
    }
    case "name":
    case "other":
      return malformed();
    default:
      return node satisfies never;
  }
}

/** A number with at most one sign. */
function signed(node: PythonNode): PythonValue {
  if (node.type === "constant") return number(node.value);
  if (node.type !== "unary" || (node.operator !== "-" && node.operator !== "+")) return malformed();
  const operand = node.operand.type === "constant" ? number(node.operand.value) : malformed();
  return node.operator === "-" ? negate(operand) : operand;
}

function number(value: PythonValue): PythonValue {
  const isNumber = typeof value === "number" || typeof value === "bigint" || value instanceof JsonFloat;
  return isNumber || value instanceof PythonComplex ? value : malformed();
}

function toNumber(value: PythonValue): number {
  return value instanceof JsonFloat ? value.value : Number(value);
}

/** `-value` of a number or a boolean. */
export function negate(value: PythonValue): PythonValue {
  if (value instanceof JsonFloat) return new JsonFloat(-value.value);
  if (typeof value === "bigint") return normalInteger(-value);
  if (typeof value === "number" || typeof value === "boolean") return 0 - Number(value);
  if (value instanceof PythonComplex) return new PythonComplex(-value.real, -value.imaginary);
  return malformed();
}

function malformed(): never {
  throw new PythonError("ValueError", "more than a literal");
}
