// Tables of records that all episodes of the process share and never change, and the tables of one episode: the shared ones with a
// few records of its own over them. A record is cloned when it is first edited, so an episode costs what it changes. Reads as a
// Python dict of tables would: changed records stay in place, added ones come last, in the order in which they were added. Knows
// no domain, and of digests only that they are taken of the records' texts by sorted id; what the text is, is the benchmark's.

import { compareCodePoints } from "../../python-semantics/index.ts";
import { cloneJson, dumpJson, type JsonObject } from "../../python-semantics/json/index.ts";

/** Records by id, in file order. */
export type Table = ReadonlyMap<string, JsonObject>;

/** The text of one table for a digest: its entries by id in the order of Python's `sorted`. */
type TableText = {
  readonly ids: readonly string[];
  /** Where each entry begins in `bytes`; and, last, the end. */
  readonly starts: readonly number[];
  readonly bytes: Buffer;
};

/** What is derived from untouched records is stored here, once for all episodes. */
export abstract class SharedTables {
  /** By name. A record of these is never changed; `Tables` clones before it lets one be edited. */
  readonly tables: ReadonlyMap<string, Table>;
  readonly #json = new WeakMap<JsonObject, string>();
  readonly #texts = new Map<string, TableText>();

  constructor(tables: ReadonlyMap<string, Table>) {
    this.tables = tables;
  }

  /** Throws a plain error for a table the domain does not have. */
  table(name: string): Table {
    const table = this.tables.get(name);
    if (table === undefined) throw new Error(`Cannot read table "${name}": the domain has no such table.`);
    return table;
  }

  /** What stands for a record in the text that a digest is taken of, with the separator behind it. */
  abstract entryText(table: string, id: string, record: JsonObject): string;

  /** The text of a table; made with the first digest. */
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

/** The value of a key, made at the first request. */
export function remembered<Key, Value>(memory: Memory<Key, Value>, key: Key, make: () => Value): Value {
  let value = memory.get(key);
  if (value === undefined) memory.set(key, (value = make()));
  return value;
}

const surrogate = /[\ud800-\udfff]/;

/** The keys in the order of Python's `sorted`. */
export function sortedKeys(object: ReadonlyMap<string, unknown>): string[] {
  const keys = [...object.keys()];
  // By UTF-16 unit, which is many times faster and the same unless there are astral characters.
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

  /** The records of a table that are the episode's own; an edited one may well be unchanged. */
  own(table: string): Table {
    return this.#own.get(table) ?? noRecords;
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
    const own = this.own(table);
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

  /** The text of a table by sorted id, in pieces, each entry with its separator: what stands between own records is the base's. */
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

  /** Takes over the state of another episode's tables; shares nothing mutable with them. */
  protected copyFrom(other: Tables<Base>): this {
    for (const [table, own] of other.#own) this.#own.set(table, cloneJson(own));
    return this;
  }
}
