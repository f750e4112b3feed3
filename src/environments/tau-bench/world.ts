// The data of a domain, shared by all episodes of the process and never changed, and the data of one episode: the shared base
// with a few records of its own over it. A record is cloned when it is first edited, so an episode costs what it changes. Reads
// as a Python dict of tables would: changed records stay in place, added ones come last, in the order in which they were added.

import { cloneJson, dumpJson, type JsonObject } from "../../python-semantics/json/index.ts";
import { BaseDigest, recordText, type TableChanges } from "./base-digest.ts";

/** Records by id, in file order. */
export type Table = ReadonlyMap<string, JsonObject>;

/** What is derived from untouched records (their JSON, their hash text) is stored here, once for all episodes. */
export class SharedBase {
  /** By name. Nobody may change a record of these; `World` clones before it lets one be edited. */
  readonly tables: ReadonlyMap<string, Table>;
  readonly #json = new WeakMap<JsonObject, string>();
  readonly #texts = new WeakMap<JsonObject, string>();
  #digest: BaseDigest | null = null;

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

  /** Made with the first digest: one pass over all data. */
  digest(): BaseDigest {
    this.#digest ??= new BaseDigest(this.tables);
    return this.#digest;
  }
}

function remembered(memory: WeakMap<JsonObject, string>, record: JsonObject, make: () => string): string {
  const known = memory.get(record);
  if (known !== undefined) return known;
  const text = make();
  memory.set(record, text);
  return text;
}

type Overlay = {
  /** Records of the base that were edited or overwritten in place. */
  readonly changed: Map<string, JsonObject>;
  /** Records behind those of the base, in order. */
  readonly added: Map<string, JsonObject>;
  /** Records of the base that were removed; one put back later is an added one. */
  readonly removed: Set<string>;
};

export class World {
  readonly base: SharedBase;
  readonly #overlays = new Map<string, Overlay>();

  constructor(base: SharedBase) {
    this.base = base;
  }

  /** For reading only: what is returned may belong to all episodes. */
  read(table: string, id: string): JsonObject | undefined {
    const overlay = this.#overlays.get(table);
    if (overlay === undefined) return this.base.table(table).get(id);
    const own = overlay.changed.get(id) ?? overlay.added.get(id);
    return own ?? (overlay.removed.has(id) ? undefined : this.base.table(table).get(id));
  }

  /** The record, for changing it in place. Throws a plain error when there is none. */
  edit(table: string, id: string): JsonObject {
    const overlay = this.#overlay(table);
    const own = overlay.changed.get(id) ?? overlay.added.get(id);
    if (own !== undefined) return own;
    const shared = overlay.removed.has(id) ? undefined : this.base.table(table).get(id);
    if (shared === undefined) throw new Error(`Cannot edit record "${id}" of table "${table}": it does not exist.`);
    const copy = cloneJson(shared);
    overlay.changed.set(id, copy);
    return copy;
  }

  /** Overwrites a record in its place, or adds one. */
  put(table: string, id: string, record: JsonObject): void {
    const overlay = this.#overlay(table);
    const isInPlace = this.base.table(table).has(id) && !overlay.removed.has(id);
    (isInPlace ? overlay.changed : overlay.added).set(id, record);
  }

  remove(table: string, id: string): void {
    const overlay = this.#overlay(table);
    overlay.changed.delete(id);
    overlay.added.delete(id);
    if (this.base.table(table).has(id)) overlay.removed.add(id);
  }

  /** The records of a table in order, for reading only. */
  *records(table: string): Generator<readonly [id: string, record: JsonObject]> {
    const overlay = this.#overlays.get(table);
    for (const [id, record] of this.base.table(table)) {
      if (overlay?.removed.has(id) !== true) yield [id, overlay?.changed.get(id) ?? record];
    }
    if (overlay !== undefined) yield* overlay.added;
  }

  /** JSON of a record as tools return it. Throws a plain error when there is none. */
  json(table: string, id: string): string {
    const record = this.read(table, id);
    if (record === undefined) throw new Error(`Cannot show record "${id}" of table "${table}": it does not exist.`);
    const isShared = record === this.base.table(table).get(id);
    return isShared ? this.base.json(record) : dumpJson(record, { ensureAscii: true });
  }

  /** Touched records by table and id; `null` for removed ones. A touched record may well be unchanged. */
  touched(): ReadonlyMap<string, TableChanges> {
    const tables = new Map<string, Map<string, JsonObject | null>>();
    for (const [table, { changed, added, removed }] of this.#overlays) {
      const touched = new Map<string, JsonObject | null>();
      for (const id of removed) touched.set(id, null);
      for (const [id, record] of changed) touched.set(id, record);
      for (const [id, record] of added) touched.set(id, record);
      tables.set(table, touched);
    }
    return tables;
  }

  /** SHA-256 (hex) over all data, as the reference computes it. Takes about a millisecond. */
  digest(): string {
    return this.base.digest().digest(this.touched());
  }

  /** A world in the same state that shares nothing mutable with this one. */
  fork(): World {
    const fork = new World(this.base);
    for (const [table, { changed, added, removed }] of this.#overlays) {
      fork.#overlays.set(table, {
        changed: cloneJson(changed),
        added: cloneJson(added),
        removed: new Set(removed),
      });
    }
    return fork;
  }

  /** What differs from the base: hash texts by table and id, `null` for removed records. */
  differences(): Map<string, Map<string, string | null>> {
    const tables = new Map<string, Map<string, string | null>>();
    for (const [table, touched] of this.touched()) {
      const differing = new Map<string, string | null>();
      for (const [id, record] of touched) {
        const shared = this.base.table(table).get(id);
        const text = record === null ? null : recordText(record);
        if (text !== (shared === undefined ? null : this.base.text(shared))) differing.set(id, text);
      }
      if (differing.size > 0) tables.set(table, differing);
    }
    return tables;
  }

  #overlay(table: string): Overlay {
    let overlay = this.#overlays.get(table);
    if (overlay === undefined) {
      overlay = { changed: new Map(), added: new Map(), removed: new Set() };
      this.#overlays.set(table, overlay);
    }
    return overlay;
  }
}
