// Python's `float(eval(text))` for arithmetic, written out: no other name, no other type, no other character. It exists
// because the calculator tools of benchmarks hand their argument to `eval`, errors included.

import { PythonError } from "../python-error.ts";
import { addComplex, type Complex, divideComplex, multiplyComplex, powerComplex, subtractComplex } from "./complex.ts";
import type { BinaryOperator, ExpressionNode, UnaryOperator } from "./nodes.ts";
import {
  divideFloats,
  divideInts,
  floorDivideFloats,
  floorDivideInts,
  intToFloat,
  multiplyInts,
  powerFloats,
  powerInts,
} from "./numbers.ts";
import { IntegerBudget } from "./integer-budget.ts";
import { parseExpression } from "./parse.ts";
import { floatRepr } from "../float-repr.ts";

type Value =
  | { readonly type: "int"; readonly value: bigint }
  | { readonly type: "float"; readonly value: number }
  | { readonly type: "complex"; readonly value: Complex }
  | { readonly type: "tuple" }
  | { readonly type: "ellipsis" };

/**
 * Evaluates digits, `+ - * / // ** ( ) .` and blanks. Throws a `PythonError` with CPython 3.11's text, syntax errors
 * included. Bounded: integers that outgrow the `IntegerBudget` are an `OverflowError`, nesting beyond CPython's own limits a
 * `RecursionError`.
 */
export function evaluateExpression(text: string): number {
  const source = text.replace(/^ +/, "");
  if (source === "") throw new PythonError("SyntaxError", "invalid syntax (<string>, line 0)");
  const value = evaluate(parseExpression(source), new IntegerBudget());
  switch (value.type) {
    case "int":
      return intToFloat(value.value);
    case "float":
      return value.value;
    default:
      throw typeError(`float() argument must be a string or a real number, not '${value.type}'`);
  }
}

/** Walks down the left spine without recursion, because CPython compiles sums of 2,900 terms. */
function evaluate(node: ExpressionNode, budget: IntegerBudget): Value {
  const spine: Extract<ExpressionNode, { readonly type: "unary" | "binary" | "call" }>[] = [];
  let leaf = node;
  while (leaf.type === "unary" || leaf.type === "binary" || leaf.type === "call") {
    spine.push(leaf);
    leaf = leaf.type === "unary" ? leaf.operand : leaf.type === "binary" ? leaf.left : leaf.callee;
  }
  let value = leafValue(leaf);
  for (let step = spine.pop(); step !== undefined; step = spine.pop()) {
    switch (step.type) {
      case "unary":
        value = unary(step.operator, value);
        break;
      case "binary":
        value = binary(step.operator, value, { right: evaluate(step.right, budget), budget });
        break;
      case "call":
        throw callError(value, step.argument === null ? null : evaluate(step.argument, budget), step.unpacking);
      default:
        step satisfies never;
    }
  }
  return value;
}

function leafValue(leaf: Exclude<ExpressionNode, { readonly type: "unary" | "binary" | "call" }>): Value {
  switch (leaf.type) {
    case "int":
      return { type: "int", value: leaf.value };
    case "float":
      return { type: "float", value: leaf.value };
    case "empty-tuple":
      return { type: "tuple" };
    case "ellipsis":
      return { type: "ellipsis" };
    default:
      return leaf satisfies never;
  }
}

function unary(operator: UnaryOperator, value: Value): Value {
  switch (value.type) {
    case "int":
      return operator === "+" ? value : { type: "int", value: -value.value };
    case "float":
      return operator === "+" ? value : { type: "float", value: -value.value };
    case "complex":
      return operator === "+"
        ? value
        : { type: "complex", value: { real: -value.value.real, imaginary: -value.value.imaginary } };
    default:
      throw typeError(`bad operand type for unary ${operator}: '${value.type}'`);
  }
}

type Operand = { readonly right: Value; readonly budget: IntegerBudget };

function binary(operator: BinaryOperator, left: Value, { right, budget }: Operand): Value {
  if (left.type === "int" && right.type === "int") return binaryInts(operator, [left.value, right.value], budget);
  const isRealLeft = left.type === "int" || left.type === "float";
  const isRealRight = right.type === "int" || right.type === "float";
  if (isRealLeft && isRealRight) return binaryFloats(operator, toFloat(left), toFloat(right));
  const isNumberLeft = isRealLeft || left.type === "complex";
  const isNumberRight = isRealRight || right.type === "complex";
  if (isNumberLeft && isNumberRight && operator !== "//") {
    return { type: "complex", value: binaryComplex(operator, toComplex(left), toComplex(right)) };
  }
  return binaryOthers(operator, left, right);
}

function binaryInts(operator: BinaryOperator, [left, right]: readonly [bigint, bigint], budget: IntegerBudget): Value {
  switch (operator) {
    case "+":
      return { type: "int", value: left + right };
    case "-":
      return { type: "int", value: left - right };
    case "*":
      return { type: "int", value: multiplyInts(left, right, budget) };
    case "/":
      return { type: "float", value: divideInts(left, right, budget) };
    case "//":
      return { type: "int", value: floorDivideInts(left, right, budget) };
    case "**":
      if (right < 0n) return binaryFloats("**", intToFloat(left), intToFloat(right));
      return { type: "int", value: powerInts(left, right, budget) };
    default:
      return operator satisfies never;
  }
}

function binaryFloats(operator: BinaryOperator, left: number, right: number): Value {
  switch (operator) {
    case "+":
      return { type: "float", value: left + right };
    case "-":
      return { type: "float", value: left - right };
    case "*":
      return { type: "float", value: left * right };
    case "/":
      return { type: "float", value: divideFloats(left, right) };
    case "//":
      return { type: "float", value: floorDivideFloats(left, right) };
    case "**": {
      const power = powerFloats(left, right);
      if (power !== null) return { type: "float", value: power };
      return {
        type: "complex",
        value: powerComplex({ real: left, imaginary: 0 }, { real: right, imaginary: 0 }),
      };
    }
    default:
      return operator satisfies never;
  }
}

function binaryComplex(operator: Exclude<BinaryOperator, "//">, left: Complex, right: Complex): Complex {
  switch (operator) {
    case "+":
      return addComplex(left, right);
    case "-":
      return subtractComplex(left, right);
    case "*":
      return multiplyComplex(left, right);
    case "/":
      return divideComplex(left, right);
    case "**":
      return powerComplex(left, right);
    default:
      return operator satisfies never;
  }
}

/** Where a tuple or an ellipsis takes part, or `//` meets a complex number. */
function binaryOthers(operator: BinaryOperator, left: Value, right: Value): Value {
  if (operator === "+" && left.type === "tuple") {
    if (right.type === "tuple") return left;
    throw typeError(`can only concatenate tuple (not "${right.type}") to tuple`);
  }
  if (operator === "*" && (left.type === "tuple" || right.type === "tuple")) {
    const count = left.type === "tuple" ? right : left;
    if (count.type !== "int") throw typeError(`can't multiply sequence by non-int of type '${count.type}'`);
    if (BigInt.asIntN(64, count.value) !== count.value) {
      throw new PythonError("OverflowError", "cannot fit 'int' into an index-sized integer");
    }
    return { type: "tuple" };
  }
  const name = operator === "**" ? "** or pow()" : operator;
  throw typeError(`unsupported operand type(s) for ${name}: '${left.type}' and '${right.type}'`);
}

/** No value of this alphabet can be called; only the words differ. */
function callError(callee: Value, argument: Value | null, unpacking: "" | "*" | "**"): PythonError {
  if (argument !== null && unpacking === "*" && argument.type !== "tuple") {
    return typeError(`${describe(callee)} argument after * must be an iterable, not ${argument.type}`);
  }
  if (argument !== null && unpacking === "**") {
    return typeError(`${describe(callee)} argument after ** must be a mapping, not ${argument.type}`);
  }
  return typeError(`'${callee.type}' object is not callable`);
}

function describe(callee: Value): string {
  switch (callee.type) {
    case "int":
      return String(callee.value);
    case "float":
      return floatRepr(callee.value);
    case "complex":
      return complexRepr(callee.value);
    case "tuple":
      return "()";
    case "ellipsis":
      return "Ellipsis";
    default:
      return callee satisfies never;
  }
}

function complexRepr(value: Complex): string {
  const part = (number: number): string => floatRepr(number).replace(/\.0$/, "");
  const imaginary = `${part(value.imaginary)}j`;
  if (Object.is(value.real, 0)) return imaginary;
  return `(${part(value.real)}${imaginary.startsWith("-") ? "" : "+"}${imaginary})`;
}

function toFloat(value: Value & { readonly type: "int" | "float" }): number {
  return value.type === "int" ? intToFloat(value.value) : value.value;
}

function toComplex(value: Value & { readonly type: "int" | "float" | "complex" }): Complex {
  return value.type === "complex" ? value.value : { real: toFloat(value), imaginary: 0 };
}

function typeError(message: string): PythonError {
  return new PythonError("TypeError", message);
}
