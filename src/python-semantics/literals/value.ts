// Values that Python code can write and JSON cannot: tuples, dicts with other keys, sets, bytes. Some formats read Python
// literals, and what `json.dumps` and `str` make of them is part of the result.

import { dumpJson, JsonFloat } from "../json/index.ts";
import { floatRepr } from "../float-repr.ts";
import { PythonError } from "../python-error.ts";
import { pythonRepr } from "../repr.ts";

export class PythonTuple {
  readonly items: readonly PythonValue[];
  constructor(items: readonly PythonValue[]) {
    this.items = items;
  }
}

export class PythonDict {
  readonly entries: readonly (readonly [key: PythonValue, value: PythonValue])[];
  constructor(entries: readonly (readonly [PythonValue, PythonValue])[]) {
    this.entries = entries;
  }
}

/** A value that JSON refuses: a set, bytes, an ellipsis, a complex number. */
export class PythonOpaque {
  readonly typeName: string;
  /** Its `repr`; the order within a set is that of its writing, which Python does not promise. */
  readonly repr: string;
  constructor(typeName: string, repr: string) {
    this.typeName = typeName;
    this.repr = repr;
  }
}

export class PythonComplex extends PythonOpaque {
  readonly real: number;
  readonly imaginary: number;
  constructor(real: number, imaginary: number) {
    const sign = imaginary < 0 || Object.is(imaginary, -0) ? "" : "+";
    const isPure = Object.is(real, 0);
    super("complex", isPure ? `${part(imaginary)}j` : `(${part(real)}${sign}${part(imaginary)}j)`);
    this.real = real;
    this.imaginary = imaginary;
  }
}

const part = (value: number): string => floatRepr(value).replace(/\.0$/, "");

export type PythonValue =
  | null
  | boolean
  | number
  | bigint
  | JsonFloat
  | string
  | readonly PythonValue[]
  | ReadonlyMap<string, PythonValue>
  | PythonTuple
  | PythonDict
  | PythonOpaque;

/** Deepest nesting that is written; CPython gives up near 1,000 minus the depth of its caller. */
const maxDumpDepth = 980;

/**
 * `json.dumps(value, ensure_ascii=False)`. Throws a `PythonError`: "TypeError" for what JSON cannot hold, "RecursionError"
 * for what is nested too deep.
 */
export function dumpPython(value: PythonValue): string {
  return dumpNested(value, 0);
}

function dumpNested(value: PythonValue, depth: number): string {
  if (depth > maxDumpDepth) throw new PythonError("RecursionError", "nested too deep to be written");
  const dump = (item: PythonValue): string => dumpNested(item, depth + 1);
  if (value instanceof PythonOpaque) {
    throw new PythonError("TypeError", `JSON has no ${value.typeName}`);
  }
  if (value instanceof PythonTuple) return `[${value.items.map(dump).join(", ")}]`;
  if (isList(value)) return `[${value.map(dump).join(", ")}]`;
  if (value instanceof PythonDict) {
    return `{${value.entries.map(([key, item]) => `${dumpKey(key)}: ${dump(item)}`).join(", ")}}`;
  }
  if (isMap(value)) {
    return `{${mapEntries(value, (key, item) => `${dumpJson(key)}: ${dump(item)}`)}}`;
  }
  return dumpJson(value);
}

function dumpKey(key: PythonValue): string {
  if (typeof key === "string") return dumpJson(key);
  const isScalar = key === null || typeof key !== "object" || key instanceof JsonFloat;
  if (isScalar) return `"${dumpJson(key)}"`;
  throw new PythonError("TypeError", "a key that JSON cannot have");
}

/** `str(value)`. */
export function pythonText(value: PythonValue): string {
  return typeof value === "string" ? value : reprOf(value);
}

function reprOf(value: PythonValue): string {
  if (value instanceof PythonOpaque) return value.repr;
  if (value instanceof PythonTuple) {
    const items = value.items.map(reprOf);
    return items.length === 1 ? `(${items[0]},)` : `(${items.join(", ")})`;
  }
  if (isList(value)) return `[${value.map(reprOf).join(", ")}]`;
  if (value instanceof PythonDict) {
    return `{${value.entries.map(([key, item]) => `${reprOf(key)}: ${reprOf(item)}`).join(", ")}}`;
  }
  if (isMap(value)) {
    return `{${mapEntries(value, (key, item) => `${pythonRepr(key)}: ${reprOf(item)}`)}}`;
  }
  return pythonRepr(value);
}

export function isList(value: PythonValue): value is readonly PythonValue[] {
  return Array.isArray(value);
}

function isMap(value: PythonValue): value is ReadonlyMap<string, PythonValue> {
  return value instanceof Map;
}

function mapEntries(map: ReadonlyMap<string, PythonValue>, write: (key: string, value: PythonValue) => string): string {
  return Array.from(map, ([key, value]) => write(key, value)).join(", ");
}

export function isDict(value: PythonValue): value is PythonDict | ReadonlyMap<string, PythonValue> {
  return value instanceof PythonDict || value instanceof Map;
}

/** A dict of evaluated entries: of equal keys the first stays with the last value. Throws "TypeError" for unhashable keys. */
export function makeDict(entries: readonly (readonly [PythonValue, PythonValue])[]): PythonDict {
  const merged = new Map<string, [PythonValue, PythonValue]>();
  for (const [key, value] of entries) {
    const identity = hashKey(key);
    const known = merged.get(identity);
    if (known === undefined) merged.set(identity, [key, value]);
    else known[1] = value;
  }
  return new PythonDict([...merged.values()]);
}

/** A set; its `repr` shows each value once, in the order written. */
export function makeSet(items: readonly PythonValue[]): PythonOpaque {
  const unique = new Map(items.map((item) => [hashKey(item), item]));
  const body = Array.from(unique.values(), reprOf).join(", ");
  return new PythonOpaque("set", unique.size === 0 ? "set()" : `{${body}}`);
}

/** Equal for keys that Python takes as equal: `1`, `1.0` and `True` are one key. */
function hashKey(key: PythonValue): string {
  if (typeof key === "string") return `s${key}`;
  if (key === null) return "null";
  if (key instanceof JsonFloat) {
    return Number.isInteger(key.value) ? `n${BigInt(key.value)}` : `f${floatRepr(key.value)}`;
  }
  if (typeof key === "boolean") return `n${Number(key)}`;
  if (typeof key !== "object") return `n${key}`;
  if (key instanceof PythonTuple) return `t(${key.items.map((item) => JSON.stringify(hashKey(item))).join()})`;
  if (key instanceof PythonOpaque && key.typeName !== "set") return `o${key.repr}`;
  throw new PythonError("TypeError", "a key that may change");
}
