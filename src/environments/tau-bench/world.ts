// The data of a domain, shared by all episodes of the process and never changed, and the data of one episode: the shared base
// with a few records of its own over it. A record is cloned when it is first edited, so an episode costs what it changes. Reads
// as a Python dict of tables would: changed records stay in place, added ones come last, in the order in which they were added.

import { createHash } from "node:crypto";
import { compareCodePoints, pythonRepr, pythonStr, stringRepr } from "../../python-semantics/index.ts";
import { cloneJson, dumpJson, JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";

/** Records by id, in file order. */
export type Table = ReadonlyMap<string, JsonObject>;

/** The hash text of one table: its entries, each with a separator behind it, by id in the order of Python's `sorted`. */
type HashedTable = {
  readonly ids: readonly string[];
  /** Where each entry begins in `bytes`; and, last, the end. */
  readonly starts: readonly number[];
  readonly bytes: Buffer;
};

/** What is derived from untouched records (their JSON, their hash text) is stored here, once for all episodes. */
export class SharedBase {
  /** By name. A record of these is never changed; `World` clones before it lets one be edited. */
  readonly tables: ReadonlyMap<string, Table>;
  readonly #json = new WeakMap<JsonObject, string>();
  readonly #texts = new WeakMap<JsonObject, string>();
  readonly #hashed = new Map<string, HashedTable>();

  constructor(tables: ReadonlyMap<string, Table>) {
    this.tables = tables;
  }

  /** Throws a plain error for a table the domain does not have. */
  table(name: string): Table {
    const table = this.tables.get(name);
    if (table === undefined) throw new Error(`Cannot read table "${name}": the domain has no such table.`);
    return table;
  }

  /** The JSON of an untouched record, as tools return it. */
  json(record: JsonObject): string {
    return remembered(this.#json, record, () => dumpJson(record, { ensureAscii: true }));
  }

  /** The hash text of an untouched record. */
  text(record: JsonObject): string {
    return remembered(this.#texts, record, () => recordText(record));
  }

  /** Made with the first digest. */
  hashed(name: string): HashedTable {
    return remembered(this.#hashed, name, () => {
      const table = this.table(name);
      const ids = sortedKeys(table);
      const entries = ids.map((id) => Buffer.from(entryText(id, this.text(table.get(id)!))));
      const starts = [0];
      for (const { length } of entries) starts.push(starts.at(-1)! + length);
      return { ids, starts, bytes: Buffer.concat(entries) };
    });
  }
}

type Memory<Key, Value> = { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown };

function remembered<Key, Value>(memory: Memory<Key, Value>, key: Key, make: () => Value): Value {
  let value = memory.get(key);
  if (value === undefined) memory.set(key, (value = make()));
  return value;
}

export class World {
  readonly base: SharedBase;
  /** Records that were edited, overwritten or added, by table and id. */
  readonly #own = new Map<string, Map<string, JsonObject>>();

  constructor(base: SharedBase) {
    this.base = base;
  }

  /** For reading only: what is returned may belong to all episodes. */
  read(table: string, id: string): JsonObject | undefined {
    return this.#own.get(table)?.get(id) ?? this.base.table(table).get(id);
  }

  /** The record, for changing it in place. Throws a plain error when there is none. */
  edit(table: string, id: string): JsonObject {
    const own = this.#own.get(table)?.get(id);
    if (own !== undefined) return own;
    const shared = this.base.table(table).get(id);
    if (shared === undefined) throw new Error(`Cannot edit record "${id}" of table "${table}": it does not exist.`);
    const copy = cloneJson(shared);
    this.put(table, id, copy);
    return copy;
  }

  /** Overwrites a record in its place, or adds one. */
  put(table: string, id: string, record: JsonObject): void {
    const own = this.#own.get(table);
    if (own === undefined) this.#own.set(table, new Map([[id, record]]));
    else own.set(id, record);
  }

  /** The records of a table in order, for reading only. */
  *records(table: string): Generator<readonly [id: string, record: JsonObject]> {
    const base = this.base.table(table);
    const own = this.#own.get(table) ?? new Map<string, JsonObject>();
    for (const [id, record] of base) yield [id, own.get(id) ?? record];
    for (const entry of own) if (!base.has(entry[0])) yield entry;
  }

  /** JSON of a record as tools return it. Throws a plain error when there is none. */
  json(table: string, id: string): string {
    const record = this.read(table, id);
    if (record === undefined) throw new Error(`Cannot show record "${id}" of table "${table}": it does not exist.`);
    const isShared = record === this.base.table(table).get(id);
    return isShared ? this.base.json(record) : dumpJson(record, { ensureAscii: true });
  }

  /** SHA-256 (hex) over all data, as the reference computes it. Takes 1 to 3 milliseconds. */
  digest(): string {
    const hash = createHash("sha256");
    const names = sortedKeys(this.base.tables);
    for (const [index, name] of names.entries()) {
      hash.update(`${index === 0 ? "(" : ", "}(${stringRepr(name)}, (`);
      const entries = this.#hashedEntries(name);
      const last = entries.pop();
      for (const entry of entries) hash.update(entry);
      if (last !== undefined) hash.update(last.subarray(0, last.length - separator.length));
      const base = this.base.table(name);
      const added = [...(this.#own.get(name)?.keys() ?? [])].filter((id) => !base.has(id));
      // Python writes a tuple of one with a comma.
      hash.update(base.size + added.length === 1 ? ",))" : "))");
    }
    return hash.update(names.length === 1 ? ",)" : ")").digest("hex");
  }

  /** The hash text of a table, in pieces: what stands between changed records is that of the base. */
  #hashedEntries(name: string): Buffer[] {
    const { ids, starts, bytes } = this.base.hashed(name);
    const own = this.#own.get(name) ?? new Map<string, JsonObject>();
    const pieces: Buffer[] = [];
    let at = 0;
    for (const id of sortedKeys(own)) {
      const found = ids.findIndex((other) => compareCodePoints(other, id) >= 0);
      const place = found === -1 ? ids.length : found;
      pieces.push(bytes.subarray(at, starts[place]), Buffer.from(entryText(id, recordText(own.get(id)!))));
      at = starts[ids[place] === id ? place + 1 : place]!;
    }
    return [...pieces, bytes.subarray(at)].filter(({ length }) => length > 0);
  }

  /** A world in the same state that shares nothing mutable with this one. */
  fork(): World {
    const fork = new World(this.base);
    for (const [table, own] of this.#own) fork.#own.set(table, cloneJson(own));
    return fork;
  }

  /** What differs from the base: hash texts by table and id, added records last. A record that was edited may well be unchanged. */
  differences(): Map<string, Map<string, string>> {
    const tables = new Map<string, Map<string, string>>();
    for (const [table, own] of this.#own) {
      const differing = new Map<string, string>();
      const base = this.base.table(table);
      const isAdded = (id: string): number => (base.has(id) ? 0 : 1);
      for (const [id, record] of [...own].toSorted(([a], [b]) => isAdded(a) - isAdded(b))) {
        const shared = base.get(id);
        const text = recordText(record);
        if (shared === undefined || text !== this.base.text(shared)) differing.set(id, text);
      }
      if (differing.size > 0) tables.set(table, differing);
    }
    return tables;
  }
}

// The text a data hash is taken of: Python's `str` of the data once dicts have become tuples of pairs sorted by key and
// lists have become tuples. Two values with the same text count as the same state ([] and {} do, 1 and 1.0 do not).

/** `str(to_hashable(value))`. */
export function hashText(value: JsonValue): string {
  return typeof value === "string" ? pythonStr(value) : recordText(value);
}

/** `repr(to_hashable(value))`: what stands for a record inside the text of all data. */
function recordText(value: JsonValue): string {
  if (typeof value === "string") return stringRepr(value);
  if (Array.isArray(value)) return tuple(value.map(recordText));
  if (value === null || value instanceof JsonFloat || typeof value !== "object") return pythonRepr(value);
  return tuple(sortedKeys(value).map((key) => `(${stringRepr(key)}, ${recordText(value.get(key)!)})`));
}

const separator = ", ";

function entryText(id: string, text: string): string {
  return `(${stringRepr(id)}, ${text})${separator}`;
}

const surrogate = /[\ud800-\udfff]/;

/** The keys in the order of Python's `sorted`. */
function sortedKeys(object: ReadonlyMap<string, unknown>): string[] {
  const keys = [...object.keys()];
  // By UTF-16 unit, which is many times faster and the same unless there are astral characters.
  return keys.some((key) => surrogate.test(key)) ? keys.sort(compareCodePoints) : keys.sort();
}

function tuple(items: readonly string[]): string {
  return items.length === 1 ? `(${items[0]!},)` : `(${items.join(", ")})`;
}
