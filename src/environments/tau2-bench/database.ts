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
  | { readonly kind: "record"; readonly model: Model }
  /** Records by id with any fields, and notes on them, as `{data, notes}`; empty if the file lacks it. */
  | { readonly kind: "noted" };

export type DatabaseSpec = {
  /** Name of the reference's class. */
  readonly name: string;
  /** Tables in the order of the class's fields. */
  readonly tables: Readonly<Record<string, TableSpec>>;
};

/** A database as read, shared by all episodes. */
export class SharedDatabase extends SharedTables {
  readonly spec: DatabaseSpec;
  /** Notes of the tables of kind "noted", by name. */
  readonly notes: ReadonlyMap<string, string>;
  readonly #sorted = new WeakMap<JsonObject, string>();
  readonly #merged = new WeakMap<JsonObject, SharedDatabase>();

  private constructor(spec: DatabaseSpec, tables: ReadonlyMap<string, Table>, notes: ReadonlyMap<string, string>) {
    super(tables);
    this.spec = spec;
    this.notes = notes;
  }

  /** Throws a `PythonError` of type "ValidationError" for a value that the data model refuses. */
  static read(spec: DatabaseSpec, value: JsonValue): SharedDatabase {
    if (!(value instanceof Map)) throw invalid(spec.name, "it is not an object");
    for (const key of value.keys())
      if (!Object.hasOwn(spec.tables, key)) throw invalid(spec.name, `there is no ${key}`);
    const tables = new Map<string, Table>();
    const notes = new Map<string, string>();
    for (const [name, table] of Object.entries(spec.tables)) {
      const given = value.get(name);
      if (table.kind === "noted") {
        const read = readNoted(name, given);
        tables.set(name, read.records);
        notes.set(name, read.notes);
      } else tables.set(name, readTable(name, table, given));
    }
    return new SharedDatabase(spec, tables, notes);
  }

  /**
   * This database with `update` merged into it, made once for each update: the episodes of a task
   * share it. Throws like {@link read}.
   */
  merged(update: JsonObject): SharedDatabase {
    return remembered(this.#merged, update, () =>
      SharedDatabase.read(
        this.spec,
        mergeValues(
          dumpTables(this, (name) => this.table(name)),
          update,
        ),
      ),
    );
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

  #textOf(name: string, { kind }: Pick<TableSpec, "kind">): readonly (string | Uint8Array)[] {
    if (kind === "noted") {
      const notes = dumpJson(this.base.notes.get(name)!, { ensureAscii: true });
      return ['{"data": ', ...this.#textOf(name, { kind: "dict" }), `, "notes": ${notes}}`];
    }
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
    return cloneJson(dumpTables(this.base, (name) => new Map(this.records(name))));
  }

  /**
   * A database with `update` merged into it: objects key by key, lists and scalars replaced. Throws
   * a `PythonError` of type "ValidationError" for a result that the data model refuses.
   */
  merged(update: JsonObject): Database {
    const { spec } = this.base;
    if (Object.keys(spec.tables).every((name) => this.own(name).size === 0)) {
      return new Database(this.base.merged(update));
    }
    return new Database(SharedDatabase.read(spec, mergeValues(this.dump(), update)));
  }
}

/** The data of a database as one object, which shares its records. */
function dumpTables({ spec, notes }: SharedDatabase, recordsOf: (table: string) => Table): JsonObject {
  const dump: JsonObject = new Map();
  for (const [name, { kind }] of Object.entries(spec.tables)) {
    const records = recordsOf(name);
    if (kind === "record") dump.set(name, records.get("")!);
    else if (kind === "list") dump.set(name, [...records.values()]);
    else if (kind === "dict") dump.set(name, new Map(records));
    else dump.set(name, new Map<string, JsonValue>([["data", new Map(records)], ["notes", notes.get(name)!]])); // prettier-ignore
  }
  return dump;
}

/** Merges without changing either object. */
function mergeValues(target: JsonObject, update: JsonObject): JsonObject {
  const merged = new Map(target);
  for (const [key, value] of update) {
    const existing = merged.get(key);
    const isNested = value instanceof Map && existing instanceof Map;
    merged.set(key, isNested ? mergeValues(existing, value) : cloneJson(value));
  }
  return merged;
}

/** Records are kept as given, because no tool changes a shared record in place. */
function readNoted(name: string, value: JsonValue | undefined): { readonly records: Table; readonly notes: string } {
  if (value === undefined) return { records: new Map(), notes: "" };
  if (!(value instanceof Map)) throw invalid(name, "it is not an object");
  const data = value.get("data") ?? new Map<string, JsonValue>();
  const notes = value.get("notes") ?? "";
  if (!(data instanceof Map)) throw invalid(`${name}.data`, "it is not an object");
  if (typeof notes !== "string") throw invalid(`${name}.notes`, "it is not a string");
  const records = new Map<string, JsonObject>();
  for (const [id, record] of data) {
    if (!(record instanceof Map)) throw invalid(`${name}.data.${id}`, "it is not an object");
    records.set(id, record);
  }
  return { records, notes };
}

function readTable(name: string, spec: Exclude<TableSpec, { kind: "noted" }>, value: JsonValue | undefined): Table {
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
