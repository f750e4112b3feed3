// Python's list, tuple and dict. Those that come from the conversation wrap its JSON and convert a level when it is first
// looked into: most of a conversation is only ever written out whole. Immutable, as the sandbox demands.

import { type JsonObject, JsonFloat, type JsonValue } from "../../../python-semantics/json/index.ts";
import { countItems } from "../limits.ts";
import { type HashKey, hashKey } from "./hash-key.ts";
import { type Origin, templateOrigin, TracedText, unknownOrigin } from "./traced-text.ts";
import { PythonObject, type Value } from "./value.ts";

export class PythonList extends PythonObject {
  readonly typeName = "list";
  /** What it was made of, when that is JSON. */
  readonly json: JsonValue[] | null;
  readonly origin: Origin;
  #items: readonly Value[] | null;

  private constructor(items: readonly Value[] | null, json: JsonValue[] | null, origin: Origin) {
    super();
    this.#items = items;
    this.json = json;
    this.origin = origin;
  }

  static of(items: readonly Value[]): PythonList {
    countItems(items.length);
    return new PythonList(items, null, unknownOrigin);
  }

  static fromJson(json: JsonValue[], origin: Origin): PythonList {
    return new PythonList(null, json, origin);
  }

  get items(): readonly Value[] {
    this.#items ??= (this.json ?? []).map((item) => fromJson(item, this.origin));
    return this.#items;
  }

  get length(): number {
    return this.#items?.length ?? this.json?.length ?? 0;
  }
}

export class PythonTuple extends PythonObject {
  readonly typeName: string = "tuple";
  readonly items: readonly Value[];

  constructor(items: readonly Value[]) {
    super();
    countItems(items.length);
    this.items = items;
  }
}

/** What the filter `groupby` gives: a pair whose halves also have names. */
export class GroupTuple extends PythonTuple {
  constructor(grouper: Value, list: PythonList) {
    super([grouper, list]);
  }
}

export type DictEntry = { readonly key: Value; readonly value: Value };

export class PythonDict extends PythonObject {
  readonly typeName = "dict";
  readonly json: JsonObject | null;
  readonly origin: Origin;
  /** Place among the messages of the conversation, when it is one of them. */
  readonly message: number | null;
  #entries: Map<HashKey, DictEntry> | null;

  private constructor(
    entries: Map<HashKey, DictEntry> | null,
    json: JsonObject | null,
    origin: Origin,
    message: number | null,
  ) {
    super();
    this.#entries = entries;
    this.json = json;
    this.origin = origin;
    this.message = message;
  }

  /** Later entries of one key replace the value of earlier ones, as in Python. Throws a "TypeError" for an unhashable key. */
  static of(entries: Iterable<DictEntry>): PythonDict {
    const map = new Map<HashKey, DictEntry>();
    for (const { key, value } of entries) {
      const hash = hashKey(key);
      map.set(hash, { key: map.get(hash)?.key ?? key, value });
    }
    countItems(map.size);
    return new PythonDict(map, null, unknownOrigin, null);
  }

  static fromJson(json: JsonObject, origin: Origin): PythonDict {
    return new PythonDict(null, json, origin, null);
  }

  static fromMessage(json: JsonObject, origin: Origin, message: number): PythonDict {
    return new PythonDict(null, json, origin, message);
  }

  /** By the hash of the key, in order. */
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

  get size(): number {
    return this.#entries?.size ?? this.json?.size ?? 0;
  }

  /** The value of a text key; `undefined` when there is none. */
  get(key: string): Value | undefined {
    return this.entries.get(key)?.value;
  }
}

/** Templates make control tokens of roles ("<|" + role + "|>"), which are words of the format and of nobody's message. */
function isRole(key: string, value: JsonValue): boolean {
  return (
    key === "role" && typeof value === "string" && /^(?:system|developer|user|assistant|tool|function)$/.test(value)
  );
}

/** JSON as templates see it, every text of it marked with where it came from. */
export function fromJson(json: JsonValue, origin: Origin): Value {
  if (typeof json === "string") return new TracedText(json, origin);
  if (json === null || typeof json !== "object" || json instanceof JsonFloat) return json;
  return Array.isArray(json) ? PythonList.fromJson(json, origin) : PythonDict.fromJson(json, origin);
}
