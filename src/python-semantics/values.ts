// Python's values: lossless JSON, plus the additional types of Python and Jinja. Lists and dicts
// have two forms: the JSON form (arrays, maps), and objects that convert one level of a
// conversation's JSON at first access and know the origin of their texts, because most of a
// conversation is only ever written as a whole. All are immutable, as Jinja's sandbox requires,
// except `Namespace`. This is not Python's object model: it covers only the values that literals
// and chat templates use.

import { PythonError, typeError, valueError } from "./errors.ts";
import { JsonFloat, type JsonObject, type JsonValue, pythonTypeName } from "./json/value.ts";
import { checkTextLength, countItems, spend } from "./limits.ts";
import { floatRepr, maxIntegerDigits } from "./number-text.ts";
import { stringRepr } from "./string-repr.ts";
import { codePointLength } from "./strings.ts";
import { type Origin, templateOrigin, TracedText, unknownOrigin } from "./traced-text.ts";

/**
 * Integers are a `number` while safe, a `bigint` beyond; `null` is None. An unset variable is
 * JavaScript's `undefined`.
 */
export type PythonValue =
  | null
  | boolean
  | number
  | bigint
  | JsonFloat
  | string
  | TracedText
  | readonly PythonValue[]
  | ReadonlyMap<string, PythonValue>
  | PythonObject;

/** The arguments of a call. */
export type CallArguments = {
  readonly positional: readonly PythonValue[];
  readonly named: ReadonlyMap<string, PythonValue>;
};

/** Base of all values but scalars, text and JSON; a subclass overrides what it supports. */
export abstract class PythonObject {
  /** `type(value).__name__`. */
  abstract readonly typeName: string;

  /** `len(value)`; `null` if it has no length. */
  get length(): number | null {
    return null;
  }

  /** The items of a value with a length. */
  items(): readonly PythonValue[] {
    return [];
  }

  /** `repr(value)`. Python's default contains an address, which tests cannot expect. */
  repr(): string {
    return `<${this.typeName}>`;
  }

  /** The value's own attribute; `undefined` if it does not exist. Methods are in `methods.ts`. */
  attribute(_name: string): PythonValue | undefined {
    return undefined;
  }

  /** Throws a "TypeError" unless the object is callable. */
  call(_args: CallArguments): PythonValue {
    throw typeError(`'${this.typeName}' object is not callable`);
  }
}

export class PythonList extends PythonObject {
  readonly typeName = "list";
  /** The JSON that it was created from; `null` if there was none. */
  readonly json: JsonValue[] | null;
  readonly origin: Origin;
  #items: readonly PythonValue[] | null;

  private constructor(items: readonly PythonValue[] | null, json: JsonValue[] | null, origin: Origin) {
    super();
    this.#items = items;
    this.json = json;
    this.origin = origin;
  }

  static of(items: readonly PythonValue[]): PythonList {
    countItems(items.length);
    return new PythonList(items, null, unknownOrigin);
  }

  static fromJson(json: JsonValue[], origin: Origin): PythonList {
    return new PythonList(null, json, origin);
  }

  override get length(): number {
    return this.#items?.length ?? this.json?.length ?? 0;
  }

  override items(): readonly PythonValue[] {
    this.#items ??= (this.json ?? []).map((item) => fromJson(item, this.origin));
    return this.#items;
  }

  override repr(): string {
    return `[${this.items().map(pythonRepr).join(", ")}]`;
  }
}

export class PythonTuple extends PythonObject {
  readonly typeName: string = "tuple";
  readonly #items: readonly PythonValue[];

  constructor(items: readonly PythonValue[]) {
    super();
    countItems(items.length);
    this.#items = items;
  }

  override get length(): number {
    return this.#items.length;
  }

  override items(): readonly PythonValue[] {
    return this.#items;
  }

  override repr(): string {
    return this.length === 1 ? `(${pythonRepr(this.#items[0]!)},)` : `(${this.#items.map(pythonRepr).join(", ")})`;
  }
}

export type DictEntry = { readonly key: PythonValue; readonly value: PythonValue };

export class PythonDict extends PythonObject {
  readonly typeName = "dict";
  readonly json: JsonObject | null;
  readonly origin: Origin;
  /** Index among the messages of the conversation; `null` if it is not a message. */
  readonly message: number | null;
  #entries: Map<HashKey, DictEntry> | null;

  private constructor(
    entries: Map<HashKey, DictEntry> | null,
    json: JsonObject | null,
    place: { readonly origin: Origin; readonly message: number | null },
  ) {
    super();
    this.#entries = entries;
    this.json = json;
    this.origin = place.origin;
    this.message = place.message;
  }

  /**
   * A later entry of the same key replaces the earlier value, as in Python. Throws a "TypeError"
   * for an unhashable key.
   */
  static of(entries: Iterable<DictEntry>): PythonDict {
    const map = new Map<HashKey, DictEntry>();
    for (const { key, value } of entries) {
      const hash = hashKey(key);
      map.set(hash, { key: map.get(hash)?.key ?? key, value });
    }
    countItems(map.size);
    return new PythonDict(map, null, { origin: unknownOrigin, message: null });
  }

  static named(values: ReadonlyMap<string, PythonValue>, origin: Origin = templateOrigin): PythonDict {
    return PythonDict.of(Array.from(values, ([key, value]) => ({ key: new TracedText(key, origin), value })));
  }

  static fromJson(json: JsonObject, origin: Origin, message: number | null = null): PythonDict {
    return new PythonDict(null, json, { origin, message });
  }

  /** Entries by the hash of the key, in order. */
  get entries(): ReadonlyMap<HashKey, DictEntry> {
    if (this.#entries === null) {
      this.#entries = new Map();
      for (const [key, value] of this.json ?? []) {
        const origin = this.message !== null && isRole(key, value) ? templateOrigin : this.origin;
        this.#entries.set(key, { key: new TracedText(key, this.origin), value: fromJson(value, origin) });
      }
    }
    return this.#entries;
  }

  override get length(): number {
    return this.#entries?.size ?? this.json?.size ?? 0;
  }

  /** The keys. */
  override items(): readonly PythonValue[] {
    return Array.from(this.entries.values(), ({ key }) => key);
  }

  pairs(): PythonTuple[] {
    return Array.from(this.entries.values(), ({ key, value }) => new PythonTuple([key, value]));
  }

  /** The value of a key. Throws a "TypeError" for an unhashable one. */
  get(key: PythonValue): PythonValue | undefined {
    return this.entries.get(hashKey(key))?.value;
  }

  override repr(): string {
    const parts = Array.from(this.entries.values(), ({ key, value }) => `${pythonRepr(key)}: ${pythonRepr(value)}`);
    return `{${parts.join(", ")}}`;
  }
}

/** Control tokens that templates build from roles belong to the format, not to a message. */
function isRole(key: string, value: JsonValue): boolean {
  return (
    key === "role" && typeof value === "string" && /^(?:system|developer|user|assistant|tool|function)$/.test(value)
  );
}

/** JSON as templates see it, with every string marked with its origin. */
export function fromJson(json: JsonValue, origin: Origin): PythonValue {
  if (typeof json === "string") return new TracedText(json, origin);
  if (json === null || typeof json !== "object" || json instanceof JsonFloat) return json;
  return Array.isArray(json) ? PythonList.fromJson(json, origin) : PythonDict.fromJson(json, origin);
}

/**
 * An iterator that yields its items once. Jinja's lazy filters return it, which templates can
 * observe: it has no length, and is exhausted after one loop.
 */
export class PythonIterator extends PythonObject {
  readonly typeName: string;
  /** Returns the next item; `undefined` at the end. */
  readonly next: () => PythonValue | undefined;

  constructor(next: () => PythonValue | undefined, typeName = "generator") {
    super();
    this.next = next;
    this.typeName = typeName;
  }

  /** Creates an iterator whose items are computed, or rejected, only when the first is requested. */
  static later(makeItems: () => Iterable<PythonValue>): PythonIterator {
    let source: PythonIterator | null = null;
    return new PythonIterator(() => {
      source ??= PythonIterator.over(makeItems());
      return source.next();
    });
  }

  static over(items: Iterable<PythonValue>, typeName?: string): PythonIterator {
    const iterator = items[Symbol.iterator]();
    return new PythonIterator(() => {
      const step = iterator.next();
      return step.done === true ? undefined : step.value;
    }, typeName);
  }

  override repr(): string {
    return `<${this.typeName} object>`;
  }
}

export class PythonRange extends PythonObject {
  readonly typeName = "range";
  readonly start: number;
  readonly stop: number;
  readonly step: number;

  constructor(start: number, stop: number, step: number) {
    super();
    this.start = start;
    this.stop = stop;
    this.step = step;
  }

  override get length(): number {
    return Math.max(0, Math.ceil((this.stop - this.start) / this.step));
  }

  at(index: number): number {
    return this.start + index * this.step;
  }

  override items(): number[] {
    return Array.from({ length: this.length }, (_, index) => this.at(index));
  }

  override repr(): string {
    const { start, stop, step } = this;
    return step === 1 ? `range(${start}, ${stop})` : `range(${start}, ${stop}, ${step})`;
  }

  override attribute(name: string): PythonValue | undefined {
    return name === "start" || name === "stop" || name === "step" ? this[name] : undefined;
  }
}

/** `dict.keys()`, `dict.values()`, `dict.items()`. */
export class DictView extends PythonObject {
  readonly kind: "keys" | "values" | "items";
  readonly dict: PythonDict;

  constructor(dict: PythonDict, kind: "keys" | "values" | "items") {
    super();
    this.dict = dict;
    this.kind = kind;
  }

  get typeName(): string {
    return `dict_${this.kind}`;
  }

  override get length(): number {
    return this.dict.length;
  }

  override items(): readonly PythonValue[] {
    if (this.kind === "keys") return this.dict.items();
    if (this.kind === "items") return this.dict.pairs();
    return Array.from(this.dict.entries.values(), ({ value }) => value);
  }

  override repr(): string {
    return `${this.typeName}([${this.items().map(pythonRepr).join(", ")}])`;
  }
}

/** A value that JSON cannot hold and no one inspects: a set, bytes, `...`, a complex number. */
export class PythonOpaque extends PythonObject {
  readonly typeName: string;
  readonly #repr: string;

  constructor(typeName: string, repr: string) {
    super();
    this.typeName = typeName;
    this.#repr = repr;
  }

  /** The items of a set are in source order, which Python does not guarantee. */
  override repr(): string {
    return this.#repr;
  }
}

/** Any callable value: methods, macros, globals. */
export class Callable extends PythonObject {
  readonly typeName: string;
  readonly name: string;
  readonly #call: (args: CallArguments) => PythonValue;

  constructor(name: string, call: (args: CallArguments) => PythonValue, typeName = "builtin_function_or_method") {
    super();
    this.typeName = typeName;
    this.name = name;
    this.#call = call;
  }

  override call(args: CallArguments): PythonValue {
    return this.#call(args);
  }

  override repr(): string {
    return this.typeName === "Macro" ? `<Macro ${stringRepr(this.name)}>` : super.repr();
  }
}

/** A missing variable, key or attribute: prints as "", is false; most other uses raise. */
export class Undefined extends PythonObject {
  readonly typeName = "Undefined";
  readonly #reason: string;
  readonly #kind: "undefined" | "security";

  constructor(reason: string, kind: "undefined" | "security" = "undefined") {
    super();
    this.#reason = reason;
    this.#kind = kind;
  }

  /**
   * The error that any other use raises: "undefined", or "security" for members hidden by the
   * sandbox. Created on demand, because it is rarely used and costly.
   */
  get error(): PythonError {
    return new PythonError(this.#kind, this.#reason);
  }

  override get length(): number {
    return 0;
  }

  override repr(): string {
    return "Undefined";
  }

  override call(): PythonValue {
    throw this.error;
  }
}

/** The value, None included; if it is missing, an undefined value with the reason. */
export function orUndefined(value: PythonValue | undefined, reason: string): PythonValue {
  return value === undefined ? new Undefined(reason) : value;
}

/** Jinja's only mutable object: `{% set ns.x = ... %}`. */
export class Namespace extends PythonObject {
  readonly typeName = "Namespace";
  readonly attributes: Map<string, PythonValue>;

  constructor(attributes: Map<string, PythonValue>) {
    super();
    this.attributes = attributes;
  }

  override attribute(name: string): PythonValue | undefined {
    return this.attributes.get(name);
  }

  override repr(): string {
    return `<Namespace ${PythonDict.named(this.attributes).repr()}>`;
  }
}

/** One JavaScript value for all Python values that are equal: the key of dict lookups. */
export type HashKey = string | number | bigint | symbol | null | PythonObject;

/** Throws a "TypeError" for lists, dicts and sets, which are unhashable. */
export function hashKey(value: PythonValue): HashKey {
  if (value instanceof TracedText) return value.text;
  if (value instanceof JsonFloat) {
    // A whole float equals the integer with its value.
    return Number.isInteger(value.value) && !Number.isSafeInteger(value.value) ? BigInt(value.value) : value.value;
  }
  if (value === null || typeof value !== "object") return typeof value === "boolean" ? Number(value) : value;
  const typeName = pythonTypeName(value);
  if (!(value instanceof PythonObject) || ["list", "dict", "set"].includes(typeName)) {
    throw typeError(`unhashable type: '${typeName}'`);
  }
  if (value instanceof Undefined || value instanceof PythonOpaque) return Symbol.for(`${typeName}:${value.repr()}`);
  if (!(value instanceof PythonTuple)) return value;
  // Equal tuples share a registered symbol; a tuple that contains objects is its own key.
  const parts: string[] = [];
  for (const part of value.items().map(hashKey)) {
    if (part !== null && typeof part === "object") return value;
    const text = JSON.stringify(String(part));
    checkTextLength(text.length);
    spend(1 + text.length);
    parts.push(`${typeof part}:${text}`);
  }
  return Symbol.for(parts.join());
}

/** The string of either text form; `null` for anything else. */
export function textIn(value: PythonValue): string | null {
  if (typeof value === "string") return value;
  return value instanceof TracedText ? value.text : null;
}

/** `len(value)`; `null` if it has no length. */
export function lengthIn(value: PythonValue): number | null {
  if (value === null || typeof value !== "object" || value instanceof JsonFloat) {
    return typeof value === "string" ? codePointLength(value) : null;
  }
  if (value instanceof TracedText) return codePointLength(value.text);
  return value instanceof Map ? value.size : (value as readonly PythonValue[] | PythonObject).length;
}

/** `repr(value)`. Throws a "ValueError" for integers with more digits than CPython writes. */
export function pythonRepr(value: PythonValue): string {
  if (typeof value === "string") return stringRepr(value);
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") {
    const digits = String(value);
    if (digits.length <= maxIntegerDigits + (value < 0 ? 1 : 0)) return digits;
    throw valueError(`Exceeds the limit (${maxIntegerDigits} digits) for integer string conversion`);
  }
  if (isList(value)) return `[${value.map(pythonRepr).join(", ")}]`;
  if (value instanceof JsonFloat) return floatRepr(value.value);
  if (value instanceof Map) return mapRepr(value as ReadonlyMap<string, PythonValue>);
  if (value instanceof TracedText) return value.isMarkup ? `Markup(${stringRepr(value.text)})` : stringRepr(value.text);
  spend(1);
  return (value as PythonObject).repr();
}

function mapRepr(value: ReadonlyMap<string, PythonValue>): string {
  let body = "";
  for (const [key, element] of value) {
    body += `${body === "" ? "" : ", "}${stringRepr(key)}: ${pythonRepr(element)}`;
  }
  return `{${body}}`;
}

/** `str(value)`: text unchanged, anything else as in `repr`, an undefined value as an empty string. */
export function pythonStr(value: PythonValue): string {
  return value instanceof Undefined ? "" : (textIn(value) ?? pythonRepr(value));
}

export const isList = (value: PythonValue): value is readonly PythonValue[] => Array.isArray(value);

export function isDict(value: PythonValue): value is PythonDict | ReadonlyMap<string, PythonValue> {
  return value instanceof PythonDict || value instanceof Map;
}
