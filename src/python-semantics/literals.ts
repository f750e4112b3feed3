// Python literals as values: `ast.literal_eval` (literals and containers of them, signed and
// complex numbers, `set()`, and nothing else), and source that is a list of calls with literal
// keyword arguments, the form of tool calls in two formats.

import { PythonComplex } from "./complex.ts";
import { PythonError, valueError } from "./errors.ts";
import { numberOf } from "./json/value.ts";
import { applySign, calculate } from "./operations.ts";
import { parseExpression, type PythonNode } from "./syntax.ts";
import { hashKey, PythonDict, PythonOpaque, pythonRepr, PythonTuple, type PythonValue } from "./values.ts";

/** `ast.literal_eval(text)`. Throws a `PythonError` ("SyntaxError", "ValueError", "TypeError"). */
export function evaluateLiteral(text: string): PythonValue {
  return evaluate(parseExpression(text.replace(/^[ \t]+/, "")));
}

/**
 * The Python exceptions that a malformed literal may raise, including subclasses that have their
 * own name.
 */
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
      const isSum = right instanceof PythonComplex && !(left instanceof PythonComplex);
      return isSum ? calculate(node.operator, left, right) : malformed();
    }
    case "name":
    case "attribute":
    case "joined":
    case "other":
      return malformed();
    default:
      return node satisfies never;
  }
}

/** A number with at most one sign. */
function signed(node: PythonNode): PythonValue {
  const constant = node.type === "unary" ? node.operand : node;
  const value = constant.type === "constant" && typeof constant.value !== "boolean" ? constant.value : null;
  if (!(value instanceof PythonComplex) && numberOf(value) === null) return malformed();
  return node.type === "unary" ? applySign(node.operator, value) : value;
}

function malformed(): never {
  throw valueError("malformed node or string");
}

/**
 * A dict of evaluated entries: a repeated key keeps its first position and gets the last value.
 * Throws "TypeError" for unhashable keys.
 */
export function makeDict(entries: readonly (readonly [PythonValue, PythonValue])[]): PythonDict {
  return PythonDict.of(entries.map(([key, value]) => ({ key, value })));
}

/** A set; its `repr` shows each value once, in source order. */
function makeSet(items: readonly PythonValue[]): PythonOpaque {
  const unique = new Map(items.map((item) => [hashKey(item), item]));
  return new PythonOpaque(
    "set",
    unique.size === 0 ? "set()" : `{${Array.from(unique.values(), pythonRepr).join(", ")}}`,
  );
}

/**
 * Evaluates constants, and lists and dicts of constants. Throws a "ValueError", or an
 * "AttributeError" for keys that are not constants.
 */
export function argumentValue(node: PythonNode): PythonValue {
  if (node.type === "constant") return node.value;
  if (node.type === "list") return node.items.map(argumentValue);
  if (node.type === "dict") {
    return makeDict(node.entries.map(([key, value]) => [constantKey(key), argumentValue(value)]));
  }
  throw new PythonError("ValueError", "an argument that is no literal");
}

function constantKey(node: PythonNode | null): PythonValue {
  if (node?.type === "constant") return node.value;
  throw new PythonError("AttributeError", "a key that is no constant");
}
