// SHA-256 of all data with a few records changed, byte for byte that of the reference. The text of the untouched data is
// kept in pieces, with the state of the hash before each: a digest starts at the first changed piece and re-makes only
// pieces with changes (a whole retail text is 1.4 MB; most digests hash half of it or less).

import { createHash, type Hash } from "node:crypto";
import type { JsonObject } from "../../lib/json/index.ts";
import { compareCodePoints, stringRepr } from "../../lib/python/index.ts";
import { recordText, sortedKeys } from "./record-text.ts";

/** Changed, added (a record) and removed (`null`) records of one table, by id. */
export type TableChanges = ReadonlyMap<string, JsonObject | null>;

type Piece = {
  readonly table: string;
  /** Ascending. Empty only for the closing piece of a table. */
  readonly ids: readonly string[];
  /** The entries of `ids`, joined. */
  readonly bytes: Buffer;
  /** What was hashed before this piece. */
  readonly before: Hash;
};

/** Records in one piece: with 32, a piece of retail orders has some 30 kB, hashed in 20 microseconds. */
const pieceSize = 32;

export class BaseDigest {
  readonly #tables: ReadonlyMap<string, ReadonlyMap<string, JsonObject>>;
  readonly #pieces: Piece[] = [];
  readonly #last: Hash;

  constructor(tables: ReadonlyMap<string, ReadonlyMap<string, JsonObject>>) {
    this.#tables = tables;
    const names = sortedKeys(tables);
    const hash = createHash("sha256");
    for (const [index, name] of names.entries()) {
      const table = tables.get(name)!;
      hash.update(opening(names, index));
      const ids = sortedKeys(table);
      for (let start = 0; start < ids.length; start += pieceSize) {
        const some = ids.slice(start, start + pieceSize);
        const bytes = Buffer.from(some.map((id) => entry(id, table.get(id)!)).join(", "));
        this.#pieces.push({ table: name, ids: some, bytes, before: hash.copy() });
        if (start > 0) hash.update(", ");
        hash.update(bytes);
      }
      this.#pieces.push({ table: name, ids: [], bytes: Buffer.alloc(0), before: hash.copy() });
      hash.update(closing(ids.length, { isLast: index === names.length - 1, tables: names.length }));
    }
    this.#last = hash;
  }

  /** Hex digest of the data with these changes. */
  digest(changes: ReadonlyMap<string, TableChanges>): string {
    const rests = new Map([...changes].map(([table, some]) => [table, sortedKeys(some)]));
    const first = this.#pieces.findIndex((piece) => this.#isChanged(piece, rests.get(piece.table)));
    if (first === -1) return this.#last.copy().digest("hex");
    const names = sortedKeys(this.#tables);
    const hash = this.#pieces[first]!.before.copy();
    // Every piece before the first changed one stands as it is, and so do its entries.
    let written = this.#writtenBefore(first);
    for (const piece of this.#pieces.slice(first)) {
      const rest = rests.get(piece.table) ?? [];
      const bytes = this.#isChanged(piece, rest) ? this.#remade(piece, rest, changes.get(piece.table)!) : null;
      const entries = bytes ?? { bytes: piece.bytes, count: piece.ids.length };
      if (entries.count > 0) {
        if (written > 0) hash.update(", ");
        hash.update(entries.bytes);
        written += entries.count;
      }
      if (piece.ids.length > 0) continue;
      const index = names.indexOf(piece.table);
      hash.update(closing(written, { isLast: index === names.length - 1, tables: names.length }));
      if (index < names.length - 1) hash.update(opening(names, index + 1));
      written = 0;
    }
    return hash.digest("hex");
  }

  /** Whether the next changed id of the table falls into this piece: up to its last id, or behind all of them. */
  #isChanged(piece: Piece, rest: readonly string[] | undefined): boolean {
    const next = rest?.[0];
    if (next === undefined) return false;
    const last = piece.ids.at(-1);
    return last === undefined || compareCodePoints(next, last) <= 0;
  }

  /** The piece with its changes, which are taken off `rest`. */
  #remade(piece: Piece, rest: string[], changes: TableChanges): { readonly bytes: string; readonly count: number } {
    const own: string[] = [];
    while (this.#isChanged(piece, rest)) own.push(rest.shift()!);
    const table = this.#tables.get(piece.table)!;
    const ids = [...new Set([...piece.ids, ...own])].sort(compareCodePoints);
    const entries: string[] = [];
    for (const id of ids) {
      const record = changes.has(id) ? changes.get(id)! : table.get(id)!;
      if (record !== null) entries.push(entry(id, record));
    }
    return { bytes: entries.join(", "), count: entries.length };
  }

  #writtenBefore(index: number): number {
    const { table } = this.#pieces[index]!;
    return this.#pieces.slice(0, index).reduce((sum, piece) => sum + (piece.table === table ? piece.ids.length : 0), 0);
  }
}

function entry(id: string, record: JsonObject): string {
  return `(${stringRepr(id)}, ${recordText(record)})`;
}

function opening(names: readonly string[], index: number): string {
  return `${index === 0 ? "(" : ", "}(${stringRepr(names[index]!)}, (`;
}

/** Python writes a tuple of one with a comma. */
function closing(count: number, { isLast, tables }: { readonly isLast: boolean; readonly tables: number }): string {
  const end = `${count === 1 ? "," : ""}))`;
  if (!isLast) return end;
  return `${end}${tables === 1 ? "," : ""})`;
}
