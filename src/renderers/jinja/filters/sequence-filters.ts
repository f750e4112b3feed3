// Filters that look at the items of a value, or cut them up.

import { calculate } from "../operations/arithmetic.ts";
import { bindArguments, expectIndex } from "../operations/bind-arguments.ts";
import { joinTexts } from "../methods/text-build.ts";
import { PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { PythonIterator } from "../values/iterables.ts";
import { isIterable, isSized, isTruthy, itemsOf, iteratorOf, lengthOf, sizedItems } from "../values/iteration.ts";
import { pythonError, typeError } from "../values/raise.ts";
import { concatTexts, templateText, TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { orUndefined, Undefined, type Value } from "../values/value.ts";
import { textOf } from "../values/value-text.ts";
import { attributeGetter } from "./attribute-path.ts";
import type { Filter } from "./filter.ts";

const length: Filter = (value, args) => {
  bindArguments("length", args, []);
  return lengthOf(value);
};

const first: Filter = (value) => orUndefined(iteratorOf(value).next(), "there is no first item");

/** Only what can be walked backwards has a last item: a lazy filter's result has not. */
const last: Filter = (value) => {
  if (!isSized(value)) throw typeError(`a ${typeNameOf(value)} cannot be walked backwards`);
  return orUndefined(sizedItems(value)?.at(-1), "there is no last item");
};

const reverse: Filter = (value) => {
  if (value instanceof TracedText)
    return concatTexts([...sizedItems(value)!].reverse() as TracedText[]).asMarkup(value.isMarkup);
  if (!isIterable(value)) throw pythonError("FilterArgumentError", `a ${typeNameOf(value)} cannot be reversed`);
  const items = [...itemsOf(value)].reverse();
  return value instanceof PythonIterator ? PythonList.of(items) : PythonIterator.over(items, "reversed");
};

const join: Filter = (value, args) => {
  const [separator = templateText(""), attribute = null] = bindArguments("join", args, ["d", "attribute"]);
  const get = attributeGetter(attribute);
  return joinTexts(
    textOf(separator),
    itemsOf(value).map((item) => textOf(attribute === null ? item : get(item))),
  );
};

/** Pairs of a dict; an error only once it is looped over. */
const items: Filter = (value) => {
  return PythonIterator.later(() => {
    if (value instanceof Undefined) return [];
    if (!(value instanceof PythonDict)) throw typeError(`a ${typeNameOf(value)} has no pairs of keys and values`);
    return Array.from(value.entries.values(), (entry) => new PythonTuple([entry.key, entry.value]));
  });
};

const sum: Filter = (value, args) => {
  const [attribute = null, start = 0] = bindArguments("sum", args, ["attribute", "start"]);
  if (start instanceof TracedText) throw typeError("texts are joined, not summed");
  const get = attributeGetter(attribute);
  return itemsOf(value).reduce((total, item) => calculate("+", total, get(item)), start);
};

const batch: Filter = (value, args) => {
  const [size, fill = null] = bindArguments("batch", args, ["linecount", "fill_with"], 1);
  return PythonIterator.later(() => {
    const count = expectIndex(size!, "batch");
    const rows: Value[][] = [];
    for (const item of itemsOf(value)) {
      if (rows.length === 0 || rows.at(-1)!.length === count) rows.push([]);
      rows.at(-1)!.push(item);
    }
    const missing = fill === null || rows.length === 0 ? 0 : count - rows.at(-1)!.length;
    for (let filled = 0; filled < missing; filled++) rows.at(-1)!.push(fill);
    return rows.map((row) => PythonList.of(row));
  });
};

const slice: Filter = (value, args) => {
  const [slices, fill = null] = bindArguments("slice", args, ["slices", "fill_with"], 1);
  return PythonIterator.later(() => {
    const all = itemsOf(value);
    const count = expectIndex(slices!, "slice");
    if (count === 0) throw pythonError("ZeroDivisionError", "a list was cut into no slices");
    const [size, extra] = [Math.floor(all.length / count), all.length % count];
    let start = 0;
    return Array.from({ length: Math.max(0, count) }, (_, index) => {
      const end = start + size + (index < extra ? 1 : 0);
      const part = all.slice(start, end);
      start = end;
      return PythonList.of(fill !== null && index >= extra ? [...part, fill] : part);
    });
  });
};

/** `d` and `default`. */
const otherwise: Filter = (value, args) => {
  const [fallback = templateText(""), isBoolean = false] = bindArguments("default", args, ["default_value", "boolean"]);
  if (value instanceof Undefined) return fallback;
  return isTruthy(isBoolean) && !isTruthy(value) ? fallback : value;
};

export const sequenceFilters: readonly (readonly [string, Filter])[] = [
  ["length", length],
  ["count", length],
  ["first", first],
  ["last", last],
  ["list", (value) => PythonList.of(itemsOf(value))],
  ["reverse", reverse],
  ["join", join],
  ["items", items],
  ["sum", sum],
  ["batch", batch],
  ["slice", slice],
  ["d", otherwise],
  ["default", otherwise],
];
