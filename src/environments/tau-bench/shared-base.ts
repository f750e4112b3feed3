// The tables of a domain as they were read, shared by all episodes of the process and never changed. What is derived from
// untouched records (their JSON, their hash text) is kept here, once for everybody.

import { dumpJson, type JsonObject } from "../../python-semantics/json/index.ts";
import { BaseDigest } from "./base-digest.ts";
import { recordText } from "./record-text.ts";

/** Records by id, in file order. */
export type Table = ReadonlyMap<string, JsonObject>;

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

  /** Made when the first digest is asked for: one pass over all data. */
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
