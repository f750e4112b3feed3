// Python's `<` and its kin: numbers, texts by code point, lists and tuples item by item; anything else raises.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { compareCodePoints } from "../../../python-semantics/index.ts";
import { PythonList, PythonTuple } from "../values/containers.ts";
import { numberOf } from "../values/number.ts";
import { typeError, undefinedError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Undefined, type Value } from "../values/value.ts";
import { areEqual } from "./equality.ts";

export type OrderOperator = "<" | "<=" | ">" | ">=";

/** Throws a "TypeError" for types without an order, and "undefined" for undefined values. */
export function isOrdered(operator: OrderOperator, left: Value, right: Value): boolean {
  const a = comparable(left);
  const b = comparable(right);
  if (a !== null && b !== null) return holds(operator, a, b);
  if (left instanceof TracedText && right instanceof TracedText) {
    return holds(operator, compareCodePoints(left.text, right.text), 0);
  }
  const isList = left instanceof PythonList && right instanceof PythonList;
  if (isList || (left instanceof PythonTuple && right instanceof PythonTuple)) {
    return areItemsOrdered(operator, left.items, right.items);
  }
  if (left instanceof Undefined) throw undefinedError(left);
  if (right instanceof Undefined) throw undefinedError(right);
  throw typeError(`a ${typeNameOf(left)} and a ${typeNameOf(right)} have no order`);
}

/** For sorting: negative, zero or positive. Asks only `<`, as Python's sort does. */
export function compareValues(left: Value, right: Value): number {
  if (isOrdered("<", left, right)) return -1;
  return isOrdered("<", right, left) ? 1 : 0;
}

function areItemsOrdered(operator: OrderOperator, left: readonly Value[], right: readonly Value[]): boolean {
  const at = left.findIndex((item, index) => index >= right.length || !areEqual(item, right[index]!));
  if (at === -1 || at >= right.length) return holds(operator, left.length, right.length);
  return isOrdered(operator, left[at]!, right[at]!);
}

function holds(operator: OrderOperator, left: number | bigint, right: number | bigint): boolean {
  if (operator === "<") return left < right;
  if (operator === "<=") return left <= right;
  return operator === ">" ? left > right : left >= right;
}

/** As JavaScript compares it, exactly across number and bigint. */
function comparable(value: Value): number | bigint | null {
  const number = numberOf(value);
  return number instanceof JsonFloat ? number.value : number;
}
