// Python's `==`, `is` and the containment that rests on them.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { hashKey } from "../values/hash-key.ts";
import { DictView, PythonIterator, PythonRange } from "../values/iterables.ts";
import { itemsOf, sizedItems } from "../values/iteration.ts";
import { typeError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Undefined, type Value } from "../values/value.ts";

/** `left == right`: deep, never an error. */
export function areEqual(left: Value, right: Value): boolean {
  if (left instanceof TracedText) return right instanceof TracedText && left.text === right.text;
  const a = scalarOf(left);
  const b = scalarOf(right);
  // oxlint-disable-next-line eqeqeq -- number, bigint: JavaScript's loose equality is exact across the two, as Python's is.
  if (a !== null || b !== null) return a !== null && b !== null && a == b;
  if (left === right) return true;
  if (left instanceof Undefined) return right instanceof Undefined;
  if (left instanceof PythonList) return right instanceof PythonList && sameItems(left.items, right.items);
  if (left instanceof PythonTuple) return right instanceof PythonTuple && sameItems(left.items, right.items);
  if (left instanceof PythonDict) return right instanceof PythonDict && sameEntries(left, right);
  if (left instanceof PythonRange) return right instanceof PythonRange && sameItems(left.items(), right.items());
  return false;
}

/** Whether both are one object. Texts and large integers have no identity here: equal ones count as the same. */
export function areSame(left: Value, right: Value): boolean {
  return left === right || (left instanceof TracedText && right instanceof TracedText && left.text === right.text);
}

/** `item in container`. */
export function contains(container: Value, item: Value): boolean {
  if (container instanceof TracedText) {
    if (item instanceof TracedText) return container.text.includes(item.text);
    throw typeError(`a ${typeNameOf(item)} was looked for in a text`);
  }
  if (container instanceof PythonDict) return container.entries.has(hashKey(item));
  if (container instanceof DictView && container.kind === "keys") return container.dict.entries.has(hashKey(item));
  if (sizedItems(container) === null && !(container instanceof PythonIterator)) {
    throw typeError(`a ${typeNameOf(container)} cannot be searched`);
  }
  return itemsOf(container).some((candidate) => areSame(candidate, item) || areEqual(candidate, item));
}

/** A number or bool as JavaScript compares it; `null` for anything else. */
function scalarOf(value: Value): number | bigint | null {
  if (typeof value === "number" || typeof value === "bigint") return value;
  if (typeof value === "boolean") return Number(value);
  return value instanceof JsonFloat ? value.value : null;
}

function sameItems(left: readonly Value[], right: readonly Value[]): boolean {
  if (left === right) return true;
  return (
    left.length === right.length && left.every((item, index) => item === right[index] || areEqual(item, right[index]!))
  );
}

function sameEntries(left: PythonDict, right: PythonDict): boolean {
  if (left.size !== right.size) return false;
  for (const [hash, { value }] of left.entries) {
    const other = right.entries.get(hash);
    if (other === undefined || !(value === other.value || areEqual(value, other.value))) return false;
  }
  return true;
}
