// What `attribute="a.b.0"` means to filters: keys, one after the other, those made of digits as numbers.

import {
  bindArguments,
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
import type { Filter } from "./run.ts";

export type Getter = (item: PythonValue) => PythonValue;

/** Follows the path; `null` is the item itself. Where something is undefined on the way, `otherwise` stands in for it. */
export function attributeGetter(path: PythonValue, otherwise: PythonValue = null): Getter {
  const keys = pathKeys(path);
  return (item) =>
    keys.reduce((value: PythonValue, key) => {
      const next = getItem(value, key);
      return next instanceof Undefined && otherwise !== null ? otherwise : next;
    }, item);
}

/** Texts without their case, everything else as it is. */
export function ignoreCase(value: PythonValue): PythonValue {
  return value instanceof TracedText ? value.with(pythonLower(value.text)) : value;
}

/** The same, for several paths between commas. */
export function attributeGetters(paths: PythonValue): readonly Getter[] {
  if (!(paths instanceof TracedText)) return [attributeGetter(paths)];
  return paths.text.split(",").map((path) => attributeGetter(templateText(path)));
}

function pathKeys(path: PythonValue): readonly PythonValue[] {
  if (path === null) return [];
  if (!(path instanceof TracedText)) return [path];
  return path.text.split(".").map((key) => (/^\d+$/.test(key) ? Number(key) : templateText(key)));
}

const length: Filter = (value, args) => {
  bindArguments("length", args, []);
  return lengthOf(value);
};

const firstItem: Filter = (value) => orUndefined(iteratorOf(value).next(), "there is no first item");

/** Only what can be walked backwards has a last item: a lazy filter's result has not. */
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

const join: Filter = (value, args) => {
  const [separator = templateText(""), attribute = null] = bindArguments("join", args, ["d", "attribute"]);
  const get = attributeGetter(attribute);
  return joinStrings(
    textOf(separator),
    itemsOf(value).map((item) => textOf(attribute === null ? item : get(item))),
  );
};

/** Pairs of a dict; an error only once it is looped over. */
const dictItems: Filter = (value) => {
  return PythonIterator.later(() => {
    if (value instanceof Undefined) return [];
    if (!(value instanceof PythonDict)) throw typeError(`a ${pythonTypeName(value)} has no pairs of keys and values`);
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
    const count = expectIndex(size!);
    const rows: PythonValue[][] = [];
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
    const count = expectIndex(slices!);
    if (count === 0) throw new PythonError("ZeroDivisionError", "a list was cut into no slices");
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
const defaultTo: Filter = (value, args) => {
  const [fallback = templateText(""), isBoolean = false] = bindArguments("default", args, ["default_value", "boolean"]);
  if (value instanceof Undefined) return fallback;
  return isTruthy(isBoolean) && !isTruthy(value) ? fallback : value;
};

export const sequenceFilters: readonly (readonly [string, Filter])[] = [
  ["length", length],
  ["count", length],
  ["first", firstItem],
  ["last", lastItem],
  ["list", (value) => PythonList.of(itemsOf(value))],
  ["reverse", reversed],
  ["join", join],
  ["items", dictItems],
  ["sum", sum],
  ["batch", batch],
  ["slice", slice],
  ["d", defaultTo],
  ["default", defaultTo],
];

/** Python's stable sort by a key; reversed, equal items keep their order too. */
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

function caseOf(isCaseSensitive: PythonValue): Getter {
  return isTruthy(isCaseSensitive) ? (value) => value : ignoreCase;
}

const sort: Filter = (value, args) => {
  const [reverse = false, caseSensitive = false, attribute = null] = bindArguments("sort", args, [
    "reverse",
    "case_sensitive",
    "attribute",
  ]);
  const asCompared = caseOf(caseSensitive);
  const getters = attributeGetters(attribute);
  const key = (item: PythonValue): PythonValue => PythonList.of(getters.map((get) => asCompared(get(item))));
  return PythonList.of(sortBy(itemsOf(value), key, isTruthy(reverse)));
};

const dictSort: Filter = (value, args) => {
  const parameters = ["case_sensitive", "by", "reverse"];
  const [caseSensitive = false, by = null, reverse = false] = bindArguments("dictsort", args, parameters);
  const side = by === null ? "key" : by instanceof TracedText ? by.text : "";
  if (side !== "key" && side !== "value")
    throw new PythonError("FilterArgumentError", "dictsort sorts by key or value");
  if (value instanceof Undefined) throw value.error;
  if (!(value instanceof PythonDict)) throw new PythonError("AttributeError", `a ${pythonTypeName(value)} is no dict`);
  const asCompared = caseOf(caseSensitive);
  const pairs = Array.from(value.entries.values(), (entry) => new PythonTuple([entry.key, entry.value]));
  const key = (pair: PythonValue): PythonValue => asCompared((pair as PythonTuple).items()[side === "key" ? 0 : 1]!);
  return PythonList.of(sortBy(pairs, key, isTruthy(reverse)));
};

const unique: Filter = (value, args) => {
  const [caseSensitive = false, attribute = null] = bindArguments("unique", args, ["case_sensitive", "attribute"]);
  const asCompared = caseOf(caseSensitive);
  const get = attributeGetter(attribute);
  const seen = new Set<unknown>();
  // Lazy: what cannot be looped over raises only when it is.
  let source: PythonIterator | null = null;
  return new PythonIterator(() => {
    source ??= iteratorOf(value);
    for (let item = source.next(); item !== undefined; item = source.next()) {
      const key = hashKey(asCompared(get(item)));
      if (seen.has(key)) continue;
      seen.add(key);
      return item;
    }
    return undefined;
  });
};

function extreme(name: string, operator: "<" | ">"): readonly [string, Filter] {
  return [
    name,
    (value, args) => {
      const [caseSensitive = false, attribute = null] = bindArguments(name, args, ["case_sensitive", "attribute"]);
      const asCompared = caseOf(caseSensitive);
      const get = attributeGetter(attribute);
      const [first, ...rest] = itemsOf(value);
      if (first === undefined) return new Undefined("there is no item to choose from");
      const key = (item: PythonValue): PythonValue => asCompared(get(item));
      return rest.reduce((best, item) => (isOrdered(operator, key(item), key(best)) ? item : best), first);
    },
  ];
}

/** What `groupby` gives: a pair whose halves also have names. */
class GroupTuple extends PythonTuple {
  override attribute(name: string): PythonValue | undefined {
    return name === "grouper" ? this.items()[0] : name === "list" ? this.items()[1] : undefined;
  }
}

const groupBy: Filter = (value, args) => {
  const parameters = ["attribute", "default", "case_sensitive"];
  const [attribute, otherwise = null, caseSensitive = false] = bindArguments("groupby", args, parameters, 1);
  const get = attributeGetter(attribute!, otherwise);
  const asCompared = caseOf(caseSensitive);
  const key = (item: PythonValue): PythonValue => asCompared(get(item));
  const groups: { readonly key: PythonValue; readonly items: PythonValue[] }[] = [];
  for (const item of sortBy(itemsOf(value), key, false)) {
    const last = groups.at(-1);
    if (last !== undefined && pythonEquals(last.key, key(item))) last.items.push(item);
    else groups.push({ key: key(item), items: [item] });
  }
  return PythonList.of(groups.map((group) => new GroupTuple([get(group.items[0]!), PythonList.of(group.items)])));
};

export const orderFilters: readonly (readonly [string, Filter])[] = [
  ["sort", sort],
  ["dictsort", dictSort],
  ["unique", unique],
  ["groupby", groupBy],
  extreme("min", "<"),
  extreme("max", ">"),
];
