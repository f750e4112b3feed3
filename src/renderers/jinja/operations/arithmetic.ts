// The operators `+ - * / // % **` and the signs, on whatever a template gives them.

import type { JsonFloat } from "../../../python-semantics/json/index.ts";
import { pythonAdd, pythonMultiply, pythonNegate, pythonSubtract } from "../../../python-semantics/index.ts";
import { checkItems, checkTextLength } from "../limits.ts";
import { formatPercent } from "../methods/format-percent.ts";
import { PythonList, PythonTuple } from "../values/containers.ts";
import { escapeText } from "../values/escape.ts";
import { numberOf } from "../values/number.ts";
import { typeError, undefinedError } from "../values/raise.ts";
import { concatTexts, repeatText, TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { type Integer, Undefined, type Value } from "../values/value.ts";
import { divide, floorDivide, power, remainder } from "./division.ts";

export type ArithmeticOperator = "+" | "-" | "*" | "/" | "//" | "%" | "**";

/** Throws the error that Python raises for values that the operator does not take. */
export function calculate(operator: ArithmeticOperator, left: Value, right: Value): Value {
  if (left instanceof TracedText && operator === "%") return formatPercent(left, right);
  if (left instanceof Undefined) throw undefinedError(left);
  if (right instanceof Undefined) throw undefinedError(right);
  const a = numberOf(left);
  const b = numberOf(right);
  if (a !== null && b !== null) return calculateNumbers(operator, a, b);
  const result = operator === "+" ? add(left, right) : operator === "*" ? repeat(left, right) : null;
  if (result !== null) return result;
  throw typeError(`the operator ${operator} does not take a ${typeNameOf(left)} and a ${typeNameOf(right)}`);
}

/** `+value` or `-value`. */
export function applySign(operator: "+" | "-", value: Value): Value {
  if (value instanceof Undefined) throw undefinedError(value);
  const number = numberOf(value);
  if (number === null) throw typeError(`the sign ${operator} does not take a ${typeNameOf(value)}`);
  return operator === "-" ? pythonNegate(number) : number;
}

function calculateNumbers(
  operator: ArithmeticOperator,
  left: Integer | JsonFloat,
  right: Integer | JsonFloat,
): Integer | JsonFloat {
  switch (operator) {
    case "+":
      return pythonAdd(left, right);
    case "-":
      return pythonSubtract(left, right);
    case "*":
      return pythonMultiply(left, right);
    case "/":
      return divide(left, right);
    case "//":
      return floorDivide(left, right);
    case "%":
      return remainder(left, right);
    case "**":
      return power(left, right);
    default:
      return operator satisfies never;
  }
}

function add(left: Value, right: Value): Value | null {
  if (left instanceof TracedText && right instanceof TracedText) return joinTwo(left, right);
  const isList = left instanceof PythonList && right instanceof PythonList;
  if (isList || (left instanceof PythonTuple && right instanceof PythonTuple)) {
    checkItems(left.items.length + right.items.length);
    const items = [...left.items, ...right.items];
    return isList ? PythonList.of(items) : new PythonTuple(items);
  }
  return null;
}

/** Markup escapes the other side. */
function joinTwo(left: TracedText, right: TracedText): TracedText {
  checkTextLength(left.text.length + right.text.length);
  if (!left.isMarkup && !right.isMarkup) return concatTexts([left, right]);
  return concatTexts([escapeText(left), escapeText(right)]).asMarkup(true);
}

function repeat(left: Value, right: Value): Value | null {
  const [count, sequence] = countOf(left) === null ? [countOf(right), left] : [countOf(left), right];
  if (count === null) return null;
  if (sequence instanceof TracedText) {
    checkTextLength(sequence.text.length * count);
    return repeatText(sequence, count);
  }
  if (!(sequence instanceof PythonList || sequence instanceof PythonTuple)) return null;
  checkItems(sequence.items.length * count);
  const items = sequence.items.length === 0 ? [] : Array.from({ length: count }, () => sequence.items).flat();
  return sequence instanceof PythonList ? PythonList.of(items) : new PythonTuple(items);
}

/** How often to repeat; `null` when the value is no integer. */
function countOf(value: Value): number | null {
  if (typeof value === "boolean") return Number(value);
  return typeof value === "number" || typeof value === "bigint" ? Math.max(0, Number(value)) : null;
}
