// The world of τ-bench: tables shared by all episodes, the changes of one episode, and the digest
// that the reference compares.

import { createHash } from "node:crypto";
import { pythonRepr, pythonStr, stringRepr } from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";
import { remembered, SharedTables, sortedKeys, Tables } from "../tables/index.ts";

/** The tables of a domain, with the hash texts of untouched records, computed once for all episodes. */
export class SharedBase extends SharedTables {
  readonly #texts = new WeakMap<JsonObject, string>();

  /** The hash text of an untouched record. */
  text(record: JsonObject): string {
    return remembered(this.#texts, record, () => recordText(record));
  }

  override entryText(_table: string, id: string, record: JsonObject): string {
    return `(${stringRepr(id)}, ${recordText(record)})${separator}`;
  }
}

export class World extends Tables<SharedBase> {
  /** SHA-256 (hex) over all data, as the reference computes it. Takes 1 to 3 milliseconds. */
  digest(): string {
    const hash = createHash("sha256");
    const names = sortedKeys(this.base.tables);
    for (const [index, name] of names.entries()) {
      hash.update(`${index === 0 ? "(" : ", "}(${stringRepr(name)}, (`);
      const entries = this.textPieces(name);
      const last = entries.pop();
      for (const entry of entries) hash.update(entry);
      if (last !== undefined) hash.update(last.subarray(0, last.length - separator.length));
      const base = this.base.table(name);
      const added = [...this.own(name).keys()].filter((id) => !base.has(id));
      // Python writes a tuple with one element with a comma.
      hash.update(base.size + added.length === 1 ? ",))" : "))");
    }
    return hash.update(names.length === 1 ? ",)" : ")").digest("hex");
  }

  /** A world in the same state that shares nothing mutable with this one. */
  fork(): World {
    return new World(this.base).copyFrom(this);
  }

  /**
   * Differences from the base: hash texts by table and id, added records last. An edited record
   * that equals its original is not included.
   */
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

// The text of a data hash: Python's `str` of the data after dicts have become tuples of pairs
// sorted by key and lists have become tuples. Two values with the same text count as the same state
// ([] and {} do, 1 and 1.0 do not).

/** `str(to_hashable(value))`. */
export function hashText(value: JsonValue): string {
  return typeof value === "string" ? pythonStr(value) : recordText(value);
}

/** `repr(to_hashable(value))`: the text of a record within the text of all data. */
function recordText(value: JsonValue): string {
  if (typeof value === "string") return stringRepr(value);
  if (Array.isArray(value)) return tuple(value.map(recordText));
  if (value === null || value instanceof JsonFloat || typeof value !== "object") return pythonRepr(value);
  return tuple(sortedKeys(value).map((key) => `(${stringRepr(key)}, ${recordText(value.get(key)!)})`));
}

const separator = ", ";

function tuple(items: readonly string[]): string {
  return items.length === 1 ? `(${items[0]!},)` : `(${items.join(", ")})`;
}
