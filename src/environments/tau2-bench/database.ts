// The database of one side, agent or user: shared by all episodes as read, overlaid with the
// changes of one episode. It is read, merged and hashed like the reference's data models. A list of
// records is stored as a table, by the id of each record.

import { createHash } from "node:crypto";
import { PythonError } from "../../python-semantics/index.ts";
import { cloneJson, dumpJson, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { remembered, SharedTables, sortedKeys, type Table, Tables } from "../tables/index.ts";
import type { Model } from "./schema.ts";

/** Storage of a top-level field of a database. */
export type TableSpec =
  /** Records by id. */
  | { readonly kind: "dict"; readonly model: Model; readonly canBeAbsent?: boolean }
  /** Records in order, each with its id in the field `key`. */
  | { readonly kind: "list"; readonly model: Model; readonly key: string }
  /** One record, under the id "". If the file lacks it, its model creates it from an empty object. */
  | { readonly kind: "record"; readonly model: Model };

export type DatabaseSpec = {
  /** Name of the reference's class. */
  readonly name: string;
  /** Tables in the order of the class's fields. */
  readonly tables: Readonly<Record<string, TableSpec>>;
};

/** A database as read, shared by all episodes. */
export class SharedDatabase extends SharedTables {
  readonly spec: DatabaseSpec;
  readonly #sorted = new WeakMap<JsonObject, string>();

  private constructor(spec: DatabaseSpec, tables: ReadonlyMap<string, Table>) {
    super(tables);
    this.spec = spec;
  }

  /** Throws a `PythonError` of type "ValidationError" for a value that the data model refuses. */
  static read(spec: DatabaseSpec, value: JsonValue): SharedDatabase {
    if (!(value instanceof Map)) throw invalid(spec.name, "it is not an object");
    for (const key of value.keys())
      if (!Object.hasOwn(spec.tables, key)) throw invalid(spec.name, `there is no ${key}`);
    const tables = new Map<string, Table>();
    for (const [name, table] of Object.entries(spec.tables)) tables.set(name, readTable(name, table, value.get(name)));
    return new SharedDatabase(spec, tables);
  }

  /**
   * Throws a `PythonError` for a table that the data model lacks, because both sides may have come
   * to share one database.
   */
  override table(name: string): Table {
    const table = this.tables.get(name);
    if (table !== undefined) return table;
    throw new PythonError("AttributeError", `'${this.spec.name}' object has no attribute '${name}'`);
  }

  override entryText(_table: string, id: string, record: JsonObject): string {
    return `${dumpJson(id, { ensureAscii: true })}: ${this.sortedText(record)}, `;
  }

  /** The JSON of an unchanged record with sorted keys, computed once. */
  sharedText(record: JsonObject): string {
    return remembered(this.#sorted, record, () => this.sortedText(record));
  }

  sortedText(record: JsonObject): string {
    return dumpJson(record, { ensureAscii: true, sortKeys: true });
  }
}

/** The database of one episode. */
export class Database extends Tables<SharedDatabase> {
  /**
   * SHA-256 (hex) as the reference computes it: over the JSON of all data, with sorted keys. Takes
   * milliseconds for large tables.
   */
  digest(): string {
    const hash = createHash("sha256");
    const { tables } = this.base.spec;
    for (const [index, name] of sortedKeys(new Map(Object.entries(tables))).entries()) {
      hash.update(`${index === 0 ? "{" : ", "}"${name}": `);
      for (const piece of this.#textOf(name, tables[name]!)) hash.update(piece);
    }
    return hash.update("}").digest("hex");
  }

  #textOf(name: string, { kind }: TableSpec): readonly (string | Uint8Array)[] {
    if (kind === "record") return [this.#recordText(name, "", this.read(name, "")!)];
    if (kind === "list") {
      const texts = Array.from(this.records(name), ([id, record]) => this.#recordText(name, id, record));
      return [`[${texts.join(", ")}]`];
    }
    const pieces = this.textPieces(name);
    const last = pieces.pop();
    if (last === undefined) return ["{}"];
    return ["{", ...pieces, last.subarray(0, last.length - 2), "}"];
  }

  #recordText(table: string, id: string, record: JsonObject): string {
    return record === this.base.table(table).get(id) ? this.base.sharedText(record) : this.base.sortedText(record);
  }

  /** True if both have the same digest. If they share a base, only changed records are compared. */
  isSameAs(other: Database): boolean {
    if (this.base !== other.base) return this.digest() === other.digest();
    return Object.entries(this.base.spec.tables).every(([name, { kind }]) => {
      const ids = new Set([...this.own(name).keys(), ...other.own(name).keys()]);
      for (const id of ids) {
        const [left, right] = [this.read(name, id), other.read(name, id)];
        if (left === undefined || right === undefined) return false;
        if (left !== right && this.#recordText(name, id, left) !== this.#recordText(name, id, right)) return false;
      }
      // The order of records added to a list counts.
      const added = (database: Database): string[] =>
        [...database.own(name).keys()].filter((id) => !this.base.table(name).has(id));
      return kind !== "list" || added(this).join("\n") === added(other).join("\n");
    });
  }

  /** All data as plain values; shares nothing with the database. */
  dump(): JsonObject {
    const dump: JsonObject = new Map();
    for (const [name, { kind }] of Object.entries(this.base.spec.tables)) {
      const records = Array.from(this.records(name), ([id, record]) => [id, cloneJson(record)] as const);
      if (kind === "record") dump.set(name, records[0]![1]);
      else dump.set(name, kind === "list" ? records.map(([, record]) => record) : new Map(records));
    }
    return dump;
  }

  /**
   * A database with `update` merged into it: objects key by key, lists and scalars replaced. Throws
   * a `PythonError` of type "ValidationError" for a result that the data model refuses.
   */
  merged(update: JsonObject): Database {
    return new Database(SharedDatabase.read(this.base.spec, mergeInto(this.dump(), update)));
  }
}

function mergeInto(target: JsonObject, update: JsonObject): JsonObject {
  for (const [key, value] of update) {
    const existing = target.get(key);
    const isNested = value instanceof Map && existing instanceof Map;
    target.set(key, isNested ? mergeInto(existing, value) : cloneJson(value));
  }
  return target;
}

function readTable(name: string, spec: TableSpec, value: JsonValue | undefined): Table {
  const { kind, model } = spec;
  if (kind === "record") return new Map([["", model.read(value ?? new Map(), name)]]);
  const table = new Map<string, JsonObject>();
  if (kind === "dict") {
    if (value === undefined && spec.canBeAbsent === true) return table;
    if (!(value instanceof Map)) throw invalid(name, "it is not an object");
    for (const [id, record] of value) table.set(id, model.read(record, `${name}.${id}`));
    return table;
  }
  if (!Array.isArray(value)) throw invalid(name, "it is not a list");
  for (const [index, item] of value.entries()) {
    const record = model.read(item, `${name}.${index}`);
    const id = record.get(spec.key);
    if (typeof id !== "string" || table.has(id)) throw invalid(`${name}.${index}`, `it has no ${spec.key} of its own`);
    table.set(id, record);
  }
  return table;
}

function invalid(place: string, problem: string): PythonError {
  return new PythonError("ValidationError", `1 validation error for ${place}: ${problem}`);
}
