// Python's `str` and `repr` of a value, with the origin of what they show.

import { JsonFloat } from "../../../python-semantics/json/index.ts";
import { floatRepr, stringRepr } from "../../../python-semantics/index.ts";
import { PythonDict, PythonList, PythonTuple } from "./containers.ts";
import { DictView, PythonIterator, PythonRange } from "./iterables.ts";
import { valueError } from "./raise.ts";
import { type Origin, TracedText, unknownOrigin } from "./traced-text.ts";
import { Callable, Namespace, Undefined, type Value } from "./value.ts";

/** CPython refuses to write longer integers. */
const maxDigits = 4300;

/** `str(value)`. */
export function textOf(value: Value): TracedText {
  if (value instanceof TracedText) return value.asMarkup(false);
  return new TracedText(value instanceof Undefined ? "" : reprOf(value), originOfValue(value));
}

/** `soft_str(value)`: as `str`, but Markup stays Markup. */
export function softTextOf(value: Value): TracedText {
  return value instanceof TracedText ? value : textOf(value);
}

/** `repr(value)`. */
export function reprOf(value: Value): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return integerText(value);
  if (value instanceof TracedText) return value.isMarkup ? `Markup(${stringRepr(value.text)})` : stringRepr(value.text);
  if (value instanceof JsonFloat) return floatRepr(value.value);
  if (value instanceof PythonList) return `[${value.items.map(reprOf).join(", ")}]`;
  if (value instanceof PythonTuple) return tupleRepr(value.items);
  if (value instanceof PythonDict) return dictRepr(value);
  if (value instanceof DictView) return `${value.typeName}([${value.items().map(reprOf).join(", ")}])`;
  if (value instanceof PythonRange) return rangeRepr(value);
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Namespace) return `<Namespace ${dictRepr(attributesOf(value))}>`;
  if (value instanceof Callable && value.typeName === "Macro") return `<Macro ${stringRepr(value.name)}>`;
  // Python shows an address here, which no template can want.
  return `<${value instanceof PythonIterator ? `${value.typeName} object` : value.typeName}>`;
}

/** Where what a value shows came from: scalars do not say, so theirs is unknown. */
export function originOfValue(value: Value): Origin {
  return value instanceof PythonList || value instanceof PythonDict ? value.origin : unknownOrigin;
}

function integerText(value: number | bigint): string {
  const text = String(value);
  if (text.length > maxDigits) throw valueError(`an integer has more than ${maxDigits} digits`);
  return text;
}

function tupleRepr(items: readonly Value[]): string {
  return items.length === 1 ? `(${reprOf(items[0]!)},)` : `(${items.map(reprOf).join(", ")})`;
}

function dictRepr(dict: PythonDict): string {
  const parts = Array.from(dict.entries.values(), ({ key, value }) => `${reprOf(key)}: ${reprOf(value)}`);
  return `{${parts.join(", ")}}`;
}

function rangeRepr({ start, stop, step }: PythonRange): string {
  return step === 1 ? `range(${start}, ${stop})` : `range(${start}, ${stop}, ${step})`;
}

function attributesOf(namespace: Namespace): PythonDict {
  const entries = Array.from(namespace.attributes, ([key, value]) => ({
    key: new TracedText(key, unknownOrigin),
    value,
  }));
  return PythonDict.of(entries);
}
