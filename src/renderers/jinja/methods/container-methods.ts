// Methods of dict, list and tuple that only look. What would change them the sandbox hides (`lookup.ts`).

import { areEqual, areSame } from "../operations/equality.ts";
import { bindPositional } from "../operations/bind-arguments.ts";
import { PythonDict, PythonList, PythonTuple } from "../values/containers.ts";
import { hashKey } from "../values/hash-key.ts";
import { DictView, type PythonRange } from "../values/iterables.ts";
import { valueError } from "../values/raise.ts";
import type { CallArguments, Value } from "../values/value.ts";

type Method<Self> = (self: Self, args: CallArguments) => Value;

function view(kind: "keys" | "values" | "items"): Method<PythonDict> {
  return (dict, args) => {
    bindPositional(kind, args, 0, 0);
    return new DictView(dict, kind);
  };
}

export const dictMethods: ReadonlyMap<string, Method<PythonDict>> = new Map<string, Method<PythonDict>>([
  ["keys", view("keys")],
  ["values", view("values")],
  ["items", view("items")],
  [
    "get",
    (dict, args) => {
      const [key, otherwise = null] = bindPositional("get", args, 1, 2);
      const entry = dict.entries.get(hashKey(key!));
      return entry === undefined ? otherwise : entry.value;
    },
  ],
  [
    "copy",
    (dict, args) => {
      bindPositional("copy", args, 0, 0);
      return PythonDict.of(dict.entries.values());
    },
  ],
]);

const isItem = (wanted: Value) => (item: Value) => areSame(item, wanted) || areEqual(item, wanted);

function count(sequence: PythonList | PythonTuple, args: CallArguments): Value {
  return sequence.items.filter(isItem(bindPositional("count", args, 1, 1)[0]!)).length;
}

function index(sequence: PythonList | PythonTuple, args: CallArguments): Value {
  const found = sequence.items.findIndex(isItem(bindPositional("index", args, 1, 3)[0]!));
  if (found === -1) throw valueError("an item was not found in a list");
  return found;
}

export const rangeMethods: ReadonlyMap<string, Method<PythonRange>> = new Map<string, Method<PythonRange>>([
  ["count", (range, args) => count(new PythonTuple(range.items()), args)],
  ["index", (range, args) => index(new PythonTuple(range.items()), args)],
]);

export const tupleMethods: ReadonlyMap<string, Method<PythonTuple>> = new Map<string, Method<PythonTuple>>([
  ["count", count],
  ["index", index],
]);

export const listMethods: ReadonlyMap<string, Method<PythonList>> = new Map<string, Method<PythonList>>([
  ["count", count],
  ["index", index],
  [
    "copy",
    (list, args) => {
      bindPositional("copy", args, 0, 0);
      return PythonList.of(list.items);
    },
  ],
]);
