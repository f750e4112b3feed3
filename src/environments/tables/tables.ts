// Tables of records that all episodes of the process share and never change, and the tables of one episode: the shared ones with a
// few records of its own over them. A record is cloned when it is first edited, so an episode costs what it changes. Reads as a
// Python dict of tables would: changed records stay in place, added ones come last, in the order in which they were added. Knows
// no domain and no digest; those are the benchmarks' own.

import { cloneJson, dumpJson, type JsonObject } from "../../python-semantics/json/index.ts";

/** Records by id, in file order. */
export type Table = ReadonlyMap<string, JsonObject>;

/** What is derived from untouched records is stored here, once for all episodes. */
export class SharedTables {
  /** By name. A record of these is never changed; `Tables` clones before it lets one be edited. */
  readonly tables: ReadonlyMap<string, Table>;
  readonly #json = new WeakMap<JsonObject, string>();

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
}

type Memory<Key, Value> = { get(key: Key): Value | undefined; set(key: Key, value: Value): unknown };

/** The value of a key, made at the first request. */
export function remembered<Key, Value>(memory: Memory<Key, Value>, key: Key, make: () => Value): Value {
  let value = memory.get(key);
  if (value === undefined) memory.set(key, (value = make()));
  return value;
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

  /** Takes over the state of another episode's tables; shares nothing mutable with them. */
  protected copyFrom(other: Tables<Base>): this {
    for (const [table, own] of other.#own) this.#own.set(table, cloneJson(own));
    return this;
  }
}
