// The world of τ-bench: tables shared by all episodes, what one episode changed of them, and the digest that the reference compares.

import { createHash } from "node:crypto";
import { compareCodePoints, pythonRepr, pythonStr, stringRepr } from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { remembered, SharedTables, Tables } from "../tables/index.ts";

/** The hash text of one table: its entries, each with a separator behind it, by id in the order of Python's `sorted`. */
type HashedTable = {
  readonly ids: readonly string[];
  /** Where each entry begins in `bytes`; and, last, the end. */
  readonly starts: readonly number[];
  readonly bytes: Buffer;
};

/** The tables of a domain, with the hash text of untouched records, made once for all episodes. */
export class SharedBase extends SharedTables {
  readonly #texts = new WeakMap<JsonObject, string>();
  readonly #hashed = new Map<string, HashedTable>();

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

export class World extends Tables<SharedBase> {
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
      const added = [...this.own(name).keys()].filter((id) => !base.has(id));
      // Python writes a tuple of one with a comma.
      hash.update(base.size + added.length === 1 ? ",))" : "))");
    }
    return hash.update(names.length === 1 ? ",)" : ")").digest("hex");
  }

  /** The hash text of a table, in pieces: what stands between changed records is that of the base. */
  #hashedEntries(name: string): Buffer[] {
    const { ids, starts, bytes } = this.base.hashed(name);
    const own = this.own(name);
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
    return new World(this.base).copyFrom(this);
  }

  /** What differs from the base: hash texts by table and id, added records last. A record that was edited may well be unchanged. */
  differences(): Map<string, Map<string, string>> {
    const tables = new Map<string, Map<string, string>>();
    for (const [table, base] of this.base.tables) {
      const own = this.own(table);
      const differing = new Map<string, string>();
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
