// Filters of lists, dicts and other iterables, and the meaning of their `attribute="a.b.0"`: keys,
// one after the other, with digits read as numbers.

import {
  type CallArguments,
  calculate,
  compareValues,
  concatStrings,
  expectIndex,
  hashKey,
  isIterable,
  isOrdered,
  isTruthy,
  itemsOf,
  iteratorOf,
  joinStrings,
  lengthIn,
  lengthOf,
  orUndefined,
  PythonDict,
  pythonEquals,
  PythonError,
  PythonIterator,
  PythonList,
  pythonLower,
  PythonTuple,
  pythonTypeName,
  type PythonValue,
  sizedItems,
  templateText,
  textOf,
  TracedText,
  typeError,
  Undefined,
} from "../../python-semantics/index.ts";
import { getItem } from "./lookup.ts";

/**
 * A filter; `args` are those after the value. Throws Jinja's errors for values and arguments that
 * do not fit.
 */
export type Filter = (value: PythonValue, args: CallArguments) => PythonValue;

/** A filter whose arguments are bound to parameters, `undefined` if omitted. */
export type BoundFilter = (value: PythonValue, ...args: PythonValue[]) => PythonValue;

/** A name, parameters (`?` after optional ones), and the function. */
export type FilterRow =
  | readonly [name: string, filter: Filter]
  | readonly [name: string, parameters: readonly string[], filter: BoundFilter];

export type Getter = (item: PythonValue) => PythonValue;

/**
 * Follows the path; `null` is the item itself. If something on the way is undefined, `otherwise`
 * stands in for it.
 */
export function attributeGetter(path: PythonValue, otherwise: PythonValue = null): Getter {
  const keys = pathKeys(path);
  return (item) =>
    keys.reduce((value: PythonValue, key) => {
      const next = getItem(value, key);
      return next instanceof Undefined && otherwise !== null ? otherwise : next;
    }, item);
}

/** Strings in lower case, everything else unchanged. */
function ignoreCase(value: PythonValue): PythonValue {
  return value instanceof TracedText ? value.with(pythonLower(value.text)) : value;
}

/** The same, for several paths between commas. */
function attributeGetters(paths: PythonValue): readonly Getter[] {
  if (!(paths instanceof TracedText)) return [attributeGetter(paths)];
  return paths.text.split(",").map((path) => attributeGetter(templateText(path)));
}

function pathKeys(path: PythonValue): readonly PythonValue[] {
  if (path === null) return [];
  if (!(path instanceof TracedText)) return [path];
  return path.text.split(".").map((key) => (/^\d+$/.test(key) ? Number(key) : templateText(key)));
}

const firstItem: Filter = (value) => orUndefined(iteratorOf(value).next(), "there is no first item");

/**
 * Only values that can be iterated backwards have a last item; the result of a lazy filter does
 * not.
 */
const lastItem: Filter = (value) => {
  if (lengthIn(value) === null) throw typeError(`a ${pythonTypeName(value)} cannot be walked backwards`);
  return orUndefined(sizedItems(value)?.at(-1), "there is no last item");
};

const reversed: Filter = (value) => {
  if (value instanceof TracedText)
    return concatStrings([...sizedItems(value)!].reverse() as TracedText[]).asMarkup(value.isMarkup);
  if (!isIterable(value)) throw new PythonError("FilterArgumentError", `a ${pythonTypeName(value)} cannot be reversed`);
  const items = [...itemsOf(value)].reverse();
  return value instanceof PythonIterator ? PythonList.of(items) : PythonIterator.over(items, "reversed");
};

const join: BoundFilter = (value, separator = templateText(""), attribute = null) => {
  const get = attributeGetter(attribute);
  return joinStrings(
    textOf(separator),
    itemsOf(value).map((item) => textOf(get(item))),
  );
};

const pairsOf = (dict: PythonDict): PythonTuple[] =>
  Array.from(dict.entries.values(), ({ key, value }) => new PythonTuple([key, value]));

/** Pairs of a dict; other values raise only when the result is iterated. */
const dictItems: Filter = (value) =>
  PythonIterator.later(() => {
    if (value instanceof Undefined) return [];
    if (value instanceof PythonDict) return pairsOf(value);
    throw typeError(`a ${pythonTypeName(value)} has no pairs of keys and values`);
  });

const sum: BoundFilter = (value, attribute = null, start = 0) => {
  if (start instanceof TracedText) throw typeError("strings are joined, not summed");
  const get = attributeGetter(attribute);
  return itemsOf(value).reduce((total, item) => calculate("+", total, get(item)), start);
};

const batch: BoundFilter = (value, size, fill = null) =>
  PythonIterator.later(() => {
    const count = expectIndex(size);
    const rows: PythonValue[][] = [];
    for (const item of itemsOf(value)) {
      if (rows.length === 0 || rows.at(-1)!.length === count) rows.push([]);
      rows.at(-1)!.push(item);
    }
    const missing = fill === null || rows.length === 0 ? 0 : count - rows.at(-1)!.length;
    for (let filled = 0; filled < missing; filled++) rows.at(-1)!.push(fill);
    return rows.map((row) => PythonList.of(row));
  });

const slice: BoundFilter = (value, slices, fill = null) =>
  PythonIterator.later(() => {
    const all = itemsOf(value);
    const count = expectIndex(slices);
    if (count === 0) throw new PythonError("ZeroDivisionError", "a list was cut into no slices");
    const [size, extra] = [Math.floor(all.length / count), all.length % count];
    return Array.from({ length: Math.max(0, count) }, (_, index) => {
      const start = index * size + Math.min(index, extra);
      const part = all.slice(start, start + size + (index < extra ? 1 : 0));
      return PythonList.of(fill !== null && index >= extra ? [...part, fill] : part);
    });
  });

/** `d` and `default`. */
const defaultTo: BoundFilter = (value, fallback = templateText(""), isBoolean = false) => {
  if (value instanceof Undefined) return fallback;
  return isTruthy(isBoolean) && !isTruthy(value) ? fallback : value;
};

/** Python's stable sort by a key: equal items keep their order even if it is reversed. */
function sortBy(
  items: readonly PythonValue[],
  key: (item: PythonValue) => PythonValue,
  isReversed: boolean,
): PythonValue[] {
  const keyed = items.map((item) => ({ item, key: key(item) }));
  if (isReversed) keyed.reverse();
  keyed.sort((left, right) => compareValues(left.key, right.key));
  if (isReversed) keyed.reverse();
  return keyed.map(({ item }) => item);
}

/** The key that items are compared by. */
function comparedBy(attribute: PythonValue, isCaseSensitive: PythonValue, otherwise: PythonValue = null): Getter {
  const get = attributeGetter(attribute, otherwise);
  return isTruthy(isCaseSensitive) ? get : (item) => ignoreCase(get(item));
}

const sort: BoundFilter = (value, reverse = false, caseSensitive = false, attribute = null) => {
  const compared = isTruthy(caseSensitive) ? (item: PythonValue) => item : ignoreCase;
  const getters = attributeGetters(attribute);
  const key: Getter = (item) => PythonList.of(getters.map((get) => compared(get(item))));
  return PythonList.of(sortBy(itemsOf(value), key, isTruthy(reverse)));
};

const dictSort: BoundFilter = (value, caseSensitive = false, by = null, reverse = false) => {
  const side = by === null ? "key" : by instanceof TracedText ? by.text : "";
  if (side !== "key" && side !== "value")
    throw new PythonError("FilterArgumentError", "dictsort sorts by key or value");
  if (value instanceof Undefined) throw value.error;
  if (!(value instanceof PythonDict))
    throw new PythonError("AttributeError", `a ${pythonTypeName(value)} is not a dict`);
  const key = comparedBy(side === "key" ? 0 : 1, caseSensitive);
  return PythonList.of(sortBy(pairsOf(value), key, isTruthy(reverse)));
};

const unique: BoundFilter = (value, caseSensitive = false, attribute = null) => {
  const compared = comparedBy(attribute, caseSensitive);
  const seen = new Set<unknown>();
  // Lazy: a value that cannot be looped over raises only on iteration.
  let source: PythonIterator | null = null;
  return new PythonIterator(() => {
    source ??= iteratorOf(value);
    for (let item = source.next(); item !== undefined; item = source.next()) {
      const key = hashKey(compared(item));
      if (seen.has(key)) continue;
      seen.add(key);
      return item;
    }
    return undefined;
  });
};

function extreme(
  operator: "<" | ">",
  [value, caseSensitive = false, attribute = null]: Parameters<BoundFilter>,
): PythonValue {
  const key = comparedBy(attribute, caseSensitive);
  const [first, ...rest] = itemsOf(value);
  if (first === undefined) return new Undefined("there is no item to choose from");
  return rest.reduce((best, item) => (isOrdered(operator, key(item), key(best)) ? item : best), first);
}

/** Result of `groupby`: a pair whose halves also have names. */
class GroupTuple extends PythonTuple {
  override attribute(name: string): PythonValue | undefined {
    return name === "grouper" ? this.items()[0] : name === "list" ? this.items()[1] : undefined;
  }
}

const groupBy: BoundFilter = (value, attribute, otherwise = null, caseSensitive = false) => {
  const get = attributeGetter(attribute, otherwise);
  const key = comparedBy(attribute, caseSensitive, otherwise);
  const groups: { readonly key: PythonValue; readonly items: PythonValue[] }[] = [];
  for (const item of sortBy(itemsOf(value), key, false)) {
    const last = groups.at(-1);
    if (last !== undefined && pythonEquals(last.key, key(item))) last.items.push(item);
    else groups.push({ key: key(item), items: [item] });
  }
  return PythonList.of(groups.map((group) => new GroupTuple([get(group.items[0]!), PythonList.of(group.items)])));
};

export const sequenceFilters: readonly FilterRow[] = [
  ["length", [], lengthOf],
  ["count", [], lengthOf],
  ["first", firstItem],
  ["last", lastItem],
  ["list", (value) => PythonList.of(itemsOf(value))],
  ["reverse", reversed],
  ["join", ["d?", "attribute?"], join],
  ["items", dictItems],
  ["sum", ["attribute?", "start?"], sum],
  ["batch", ["linecount", "fill_with?"], batch],
  ["slice", ["slices", "fill_with?"], slice],
  ["d", ["default_value?", "boolean?"], defaultTo],
  ["default", ["default_value?", "boolean?"], defaultTo],
  ["sort", ["reverse?", "case_sensitive?", "attribute?"], sort],
  ["dictsort", ["case_sensitive?", "by?", "reverse?"], dictSort],
  ["unique", ["case_sensitive?", "attribute?"], unique],
  ["groupby", ["attribute", "default?", "case_sensitive?"], groupBy],
  ["min", ["case_sensitive?", "attribute?"], (...given) => extreme("<", given)],
  ["max", ["case_sensitive?", "attribute?"], (...given) => extreme(">", given)],
];
