// Tables of records that all episodes of the process share and never change, and the tables of one
// episode: the shared ones overlaid with a few records of its own. A record is cloned at its first
// edit, so an episode only costs its changes. Reads like a Python dict of tables: changed records
// stay in place, and new ones come last, in the order in which they were added. Knows no domain.
// Digests are taken of the records' texts by sorted id; each benchmark defines the text.

import { compareCodePoints } from "../../python-semantics/index.ts";
import { cloneJson, dumpJson, type JsonObject } from "../../python-semantics/json/index.ts";

/** Records by id, in file order. */
export type Table = ReadonlyMap<string, JsonObject>;

/** The text of one table for a digest: its entries by id in the order of Python's `sorted`. */
type TableText = {
  readonly ids: readonly string[];
  /** Offset of each entry in `bytes`, followed by the end. */
  readonly starts: readonly number[];
  readonly bytes: Buffer;
};

/**
 * The shared tables, with the values derived from untouched records, computed once for all
 * episodes.
 */
export abstract class SharedTables {
  /** Tables by name. Their records are never changed; `Tables` clones a record before an edit. */
  readonly tables: ReadonlyMap<string, Table>;
  readonly #json = new WeakMap<JsonObject, string>();
  readonly #texts = new Map<string, TableText>();

  constructor(tables: ReadonlyMap<string, Table>) {
    this.tables = tables;
  }

  /** Throws a plain error for a table that the domain does not have. */
  table(name: string): Table {
    const table = this.tables.get(name);
    if (table === undefined) throw new Error(`Cannot read table "${name}": the domain has no such table.`);
    return table;
  }

  /** The text of a record for the digest, followed by its separator. */
  abstract entryText(table: string, id: string, record: JsonObject): string;

  /** The text of a table, built for the first digest. */
  tableText(name: string): TableText {
    return remembered(this.#texts, name, () => {
      const table = this.table(name);
      const ids = sortedKeys(table);
      const entries = ids.map((id) => Buffer.from(this.entryText(name, id, table.get(id)!)));
      const starts = [0];
      for (const { length } of entries) starts.push(starts.at(-1)! + length);
      return { ids, starts, bytes: Buffer.concat(entries) };
    });
  }

  /** The JSON of an untouched record, as tools return it. */
  json(record: JsonObject): string {
    return remembered(this.#json, record, () => dumpJson(record, { ensureAscii: true }));
  }
}

type Memory<Key, Value> = { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown };

/** The value of a key, computed at the first request. */
export function remembered<Key, Value>(memory: Memory<Key, Value>, key: Key, make: () => Value): Value {
  let value = memory.get(key);
  if (value === undefined) memory.set(key, (value = make()));
  return value;
}

const surrogate = /[\ud800-\udfff]/;

/** The keys in the order of Python's `sorted`. */
export function sortedKeys(object: ReadonlyMap<string, unknown>): string[] {
  const keys = [...object.keys()];
  // Sorting by UTF-16 unit is many times faster, and gives the same order unless there are astral
  // characters.
  return keys.some((key) => surrogate.test(key)) ? keys.sort(compareCodePoints) : keys.sort();
}

const noRecords: Table = new Map();

/** The tables of one episode. */
export class Tables<Base extends SharedTables = SharedTables> {
  readonly base: Base;
  /** Records that were edited, overwritten or added, by table and id. */
  readonly #own = new Map<string, Map<string, JsonObject>>();

  constructor(base: Base) {
    this.base = base;
  }

  /** The episode's own records of a table; an edited one may still equal its original. */
  own(table: string): Table {
    return this.#own.get(table) ?? noRecords;
  }

  /** A record for reading only, because it may belong to all episodes. */
  read(table: string, id: string): JsonObject | undefined {
    return this.#own.get(table)?.get(id) ?? this.base.table(table).get(id);
  }

  /** The record, for changing it in place. Throws a plain error if there is none. */
  edit(table: string, id: string): JsonObject {
    const own = this.#own.get(table)?.get(id);
    if (own !== undefined) return own;
    const shared = this.base.table(table).get(id);
    if (shared === undefined) throw new Error(`Cannot edit record "${id}" of table "${table}": it does not exist.`);
    const copy = cloneJson(shared);
    this.put(table, id, copy);
    return copy;
  }

  /** Overwrites a record in its position, or adds one. */
  put(table: string, id: string, record: JsonObject): void {
    const own = this.#own.get(table);
    if (own === undefined) this.#own.set(table, new Map([[id, record]]));
    else own.set(id, record);
  }

  /** The records of a table in order, for reading only. */
  *records(table: string): Generator<readonly [id: string, record: JsonObject]> {
    const base = this.base.table(table);
    const own = this.own(table);
    for (const [id, record] of base) yield [id, own.get(id) ?? record];
    for (const entry of own) if (!base.has(entry[0])) yield entry;
  }

  /** The JSON of a record as tools return it. Throws a plain error if there is none. */
  json(table: string, id: string): string {
    const record = this.read(table, id);
    if (record === undefined) throw new Error(`Cannot show record "${id}" of table "${table}": it does not exist.`);
    const isShared = record === this.base.table(table).get(id);
    return isShared ? this.base.json(record) : dumpJson(record, { ensureAscii: true });
  }

  /**
   * The text of a table by sorted id, in pieces, each entry with its separator; pieces between own
   * records come from the base.
   */
  textPieces(name: string): Buffer[] {
    const { ids, starts, bytes } = this.base.tableText(name);
    const own = this.own(name);
    const pieces: Buffer[] = [];
    let at = 0;
    for (const id of sortedKeys(own)) {
      const found = ids.findIndex((other) => compareCodePoints(other, id) >= 0);
      const place = found === -1 ? ids.length : found;
      pieces.push(bytes.subarray(at, starts[place]), Buffer.from(this.base.entryText(name, id, own.get(id)!)));
      at = starts[ids[place] === id ? place + 1 : place]!;
    }
    return [...pieces, bytes.subarray(at)].filter(({ length }) => length > 0);
  }

  /** Copies the state of another episode's tables; shares nothing mutable with them. */
  protected copyFrom(other: Tables<Base>): this {
    for (const [table, own] of other.#own) this.#own.set(table, cloneJson(own));
    return this;
  }
}
