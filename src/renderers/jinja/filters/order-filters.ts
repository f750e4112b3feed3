// Filters that compare items: sorting, grouping, the smallest and the largest, the distinct ones.

import { bindArguments } from "../operations/bind-arguments.ts";
import { areEqual } from "../operations/equality.ts";
import { compareValues, isOrdered } from "../operations/order.ts";
import { GroupTuple, PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { hashKey } from "../values/hash-key.ts";
import { PythonIterator } from "../values/iterables.ts";
import { isTruthy, itemsOf, iteratorOf } from "../values/iteration.ts";
import { pythonError, undefinedError } from "../values/raise.ts";
import { TracedText } from "../values/traced-text.ts";
import { typeNameOf } from "../values/type-name.ts";
import { Undefined, type Value } from "../values/value.ts";
import { attributeGetter, attributeGetters, type Getter, ignoreCase } from "./attribute-path.ts";
import type { Filter } from "./filter.ts";

/** Python's stable sort by a key; reversed, equal items keep their order too. */
function sortBy(items: readonly Value[], key: (item: Value) => Value, isReversed: boolean): Value[] {
  const keyed = items.map((item) => ({ item, key: key(item) }));
  if (isReversed) keyed.reverse();
  keyed.sort((left, right) => compareValues(left.key, right.key));
  if (isReversed) keyed.reverse();
  return keyed.map(({ item }) => item);
}

function caseOf(isCaseSensitive: Value): Getter {
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
  const key = (item: Value): Value => PythonList.of(getters.map((get) => asCompared(get(item))));
  return PythonList.of(sortBy(itemsOf(value), key, isTruthy(reverse)));
};

const dictSort: Filter = (value, args) => {
  const parameters = ["case_sensitive", "by", "reverse"];
  const [caseSensitive = false, by = null, reverse = false] = bindArguments("dictsort", args, parameters);
  const side = by === null ? "key" : by instanceof TracedText ? by.text : "";
  if (side !== "key" && side !== "value") throw pythonError("FilterArgumentError", "dictsort sorts by key or value");
  if (value instanceof Undefined) throw undefinedError(value);
  if (!(value instanceof PythonDict)) throw pythonError("AttributeError", `a ${typeNameOf(value)} is no dict`);
  const asCompared = caseOf(caseSensitive);
  const pairs = Array.from(value.entries.values(), (entry) => new PythonTuple([entry.key, entry.value]));
  const key = (pair: Value): Value => asCompared((pair as PythonTuple).items[side === "key" ? 0 : 1]!);
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
      const key = (item: Value): Value => asCompared(get(item));
      return rest.reduce((best, item) => (isOrdered(operator, key(item), key(best)) ? item : best), first);
    },
  ];
}

const groupBy: Filter = (value, args) => {
  const parameters = ["attribute", "default", "case_sensitive"];
  const [attribute, otherwise = null, caseSensitive = false] = bindArguments("groupby", args, parameters, 1);
  const get = attributeGetter(attribute!, otherwise);
  const asCompared = caseOf(caseSensitive);
  const key = (item: Value): Value => asCompared(get(item));
  const groups: { readonly key: Value; readonly items: Value[] }[] = [];
  for (const item of sortBy(itemsOf(value), key, false)) {
    const last = groups.at(-1);
    if (last !== undefined && areEqual(last.key, key(item))) last.items.push(item);
    else groups.push({ key: key(item), items: [item] });
  }
  return PythonList.of(groups.map((group) => new GroupTuple(get(group.items[0]!), PythonList.of(group.items))));
};

export const orderFilters: readonly (readonly [string, Filter])[] = [
  ["sort", sort],
  ["dictsort", dictSort],
  ["unique", unique],
  ["groupby", groupBy],
  extreme("min", "<"),
  extreme("max", ">"),
];
