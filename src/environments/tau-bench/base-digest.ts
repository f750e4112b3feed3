// SHA-256 of all data with a few records changed, byte for byte that of the reference. The text of the untouched data is
// kept in pieces, with the state of the hash before each: a digest starts at the first changed piece and re-makes only
// pieces with changes (a whole retail text is 1.4 MB; most digests hash half of it or less).

import { createHash, type Hash } from "node:crypto";
import { compareCodePoints, pythonRepr, pythonStr, stringRepr } from "../../python-semantics/index.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../../python-semantics/json/index.ts";

/** Changed, added (a record) and removed (`null`) records of one table, by id. */
export type TableChanges = ReadonlyMap<string, JsonObject | null>;

type Piece = {
  readonly table: string;
  /** Ascending. Empty only for the closing piece of a table. */
  readonly ids: readonly string[];
  /** The entries of `ids`, joined. */
  readonly bytes: Buffer;
  /** Each entry as a part of `bytes`; aligned with `ids`. */
  readonly entries: readonly Buffer[];
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
        const piece = makePiece(name, some, { table, before: hash.copy() });
        this.#pieces.push(piece);
        if (start > 0) hash.update(", ");
        hash.update(piece.bytes);
      }
      this.#pieces.push(makePiece(name, [], { table, before: hash.copy() }));
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
      const isChanged = this.#isChanged(piece, rest);
      for (const bytes of isChanged ? this.#remade(piece, rest, changes.get(piece.table)!) : [piece.bytes]) {
        if (bytes.length === 0) continue;
        if (written > 0) hash.update(", ");
        hash.update(bytes);
        written += isChanged ? 1 : piece.ids.length;
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

  /** The entries of the piece with its changes, which are taken off `rest`. */
  #remade(piece: Piece, rest: string[], changes: TableChanges): (string | Buffer)[] {
    const entries = new Map<string, string | Buffer>(piece.ids.map((id, index) => [id, piece.entries[index]!]));
    while (this.#isChanged(piece, rest)) {
      const id = rest.shift()!;
      const record = changes.get(id) ?? null;
      entries.set(id, record === null ? "" : entry(id, record));
    }
    // Added ones stand behind and belong between.
    return entries.size === piece.ids.length
      ? [...entries.values()]
      : sortedKeys(entries).map((id) => entries.get(id)!);
  }

  #writtenBefore(index: number): number {
    const { table } = this.#pieces[index]!;
    return this.#pieces.slice(0, index).reduce((sum, piece) => sum + (piece.table === table ? piece.ids.length : 0), 0);
  }
}

function makePiece(
  name: string,
  ids: readonly string[],
  { table, before }: { readonly table: ReadonlyMap<string, JsonObject>; readonly before: Hash },
): Piece {
  const texts = ids.map((id) => Buffer.from(entry(id, table.get(id)!)));
  const comma = Buffer.from(", ");
  const bytes = Buffer.concat(texts.flatMap((text, index) => (index === 0 ? [text] : [comma, text])));
  let at = 0;
  const entries = texts.map((text) => {
    const part = bytes.subarray(at, at + text.length);
    at += text.length + comma.length;
    return part;
  });
  return { table: name, ids, bytes, entries, before };
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

// The text a data hash is taken of: Python's `str` of the data once dicts have become tuples of pairs sorted by key and
// lists have become tuples. Two values with the same text count as the same state ([] and {} do, 1 and 1.0 do not).

/** `str(to_hashable(value))`. */
export function hashText(value: JsonValue): string {
  return typeof value === "string" ? pythonStr(value) : recordText(value);
}

/** `repr(to_hashable(value))`: what stands for a record inside the text of all data. */
export function recordText(value: JsonValue): string {
  if (typeof value === "string") return stringRepr(value);
  if (Array.isArray(value)) return tuple(value.map(recordText));
  if (value === null || value instanceof JsonFloat || typeof value !== "object") return pythonRepr(value);
  return tuple(sortedKeys(value).map((key) => `(${stringRepr(key)}, ${recordText(value.get(key)!)})`));
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
