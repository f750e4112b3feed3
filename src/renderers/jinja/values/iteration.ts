// Python's `iter`, `len` and truth.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { codePointLength } from "./code-points.ts";
import { PythonDict, PythonList, PythonTuple } from "./containers.ts";
import { DictView, PythonIterator, PythonRange } from "./iterables.ts";
import { typeError } from "./raise.ts";
import { TracedText } from "./traced-text.ts";
import { typeNameOf } from "./type-name.ts";
import { Undefined, type Value } from "./value.ts";

/** The items of anything that has a length; `null` for iterators and for what cannot be looped over. */
export function sizedItems(value: Value): readonly Value[] | null {
  if (value instanceof PythonList || value instanceof PythonTuple) return value.items;
  if (value instanceof PythonDict) return Array.from(value.entries.values(), ({ key }) => key);
  if (value instanceof TracedText) return characters(value);
  if (value instanceof PythonRange || value instanceof DictView) return value.items();
  if (value instanceof Undefined) return [];
  return null;
}

/** All items; an iterator is used up. Throws a "TypeError" for what cannot be looped over. */
export function itemsOf(value: Value): readonly Value[] {
  const sized = sizedItems(value);
  if (sized !== null) return sized;
  const iterator = iteratorOf(value);
  const items: Value[] = [];
  for (let item = iterator.next(); item !== undefined; item = iterator.next()) items.push(item);
  return items;
}

/** An iterator over the items; an iterator itself as it is. */
export function iteratorOf(value: Value): PythonIterator {
  if (value instanceof PythonIterator) return value;
  const sized = sizedItems(value);
  if (sized === null) throw typeError(`a ${typeNameOf(value)} cannot be looped over`);
  return PythonIterator.over(sized);
}

export function isIterable(value: Value): boolean {
  return value instanceof PythonIterator || isSized(value);
}

/** Whether `len` works. */
export function isSized(value: Value): boolean {
  return (
    value instanceof TracedText ||
    value instanceof PythonList ||
    value instanceof PythonDict ||
    value instanceof PythonTuple ||
    value instanceof PythonRange ||
    value instanceof DictView ||
    value instanceof Undefined
  );
}

/** `len(value)`. */
export function lengthOf(value: Value): number {
  if (value instanceof TracedText) return codePointLength(value.text);
  if (value instanceof PythonList || value instanceof PythonRange) return value.length;
  if (value instanceof PythonDict) return value.size;
  if (value instanceof PythonTuple) return value.items.length;
  if (value instanceof DictView) return value.dict.size;
  if (value instanceof Undefined) return 0;
  throw typeError(`a ${typeNameOf(value)} has no length`);
}

/** `bool(value)`. */
export function isTruthy(value: Value): boolean {
  if (value === null || typeof value !== "object") return Boolean(value);
  if (value instanceof TracedText) return value.text !== "";
  if (value instanceof JsonFloat) return value.value !== 0;
  return isSized(value) ? lengthOf(value) > 0 : true;
}

function characters(value: TracedText): TracedText[] {
  let offset = 0;
  const plain = value.asMarkup(false);
  return Array.from(value.text, (character) => plain.slice(offset, (offset += character.length)));
}
