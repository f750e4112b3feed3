// The index of a file of tasks: where each row begins, and what is known about all of them. Numbers
// are in typed arrays, 24 bytes a row, so that the index of a million tasks is read in a fraction of
// a second. The index is written once, by a full read of the file, and read by every later process.

import { Buffer } from "node:buffer";
import { createHash, hash, type Hash } from "node:crypto";
import type { RowFacts, TaskSplit } from "./task-table.ts";

/** Facts that name one state of a file: a change of the file changes one of them. */
export type FileState = {
  readonly size: number;
  /** Times in nanoseconds, and the number of the file in its file system, as text. */
  readonly modified: string;
  readonly changed: string;
  readonly inode: string;
};

export type IndexedTrait = { readonly name: string; readonly count: number; readonly firstLine: number };

/** Facts about the file as a whole. */
export type IndexFacts = {
  readonly rows: number;
  /** Names of the columns of CSV; `null` for other files. */
  readonly header: readonly string[] | null;
  readonly splits: readonly TaskSplit[];
  readonly traits: readonly IndexedTrait[];
};

/** Rows grouped by split, in the order of `facts.splits`; within a split in the order of the file. */
export type TaskIndex = {
  readonly facts: IndexFacts;
  /** Position of each row in the file. */
  readonly offsets: Float64Array;
  /** First 8 bytes of the SHA-256 of each row's value, as two numbers. */
  readonly digests: Uint32Array;
  /** Length of each row in bytes. */
  readonly lengths: Uint32Array;
  /** Line of each row, from 1. */
  readonly lines: Uint32Array;
};

/** Limits on a file: rows, different splits, and different traits. */
const most = { rows: 100_000_000, splits: 1000, traits: 10_000 };

type Numbers = Float64Array | Uint32Array;

/** A list of numbers that grows by doubling. */
class Growing<List extends Numbers> {
  readonly #make: (length: number) => List;
  #list: List;
  length = 0;

  constructor(make: (length: number) => List) {
    this.#make = make;
    this.#list = make(1024);
  }

  push(value: number): void {
    if (this.length === this.#list.length) {
      const larger = this.#make(2 * this.length);
      larger.set(this.#list);
      this.#list = larger;
    }
    this.#list[this.length++] = value;
  }

  get(index: number): number {
    return this.#list[index]!;
  }
}

const doubles = (): Growing<Float64Array> => new Growing((length) => new Float64Array(length));
const words = (): Growing<Uint32Array> => new Growing((length) => new Uint32Array(length));

/** The SHA-256 of a row's value. Two rows whose JSON differs only in spaces have the same. */
export function digestOf(fields: unknown): Buffer {
  return hash("sha256", JSON.stringify(fields), "buffer");
}

/** A row that the index receives. */
export type IndexedRow = {
  readonly facts: RowFacts;
  readonly digest: Buffer;
  readonly offset: number;
  readonly length: number;
  readonly line: number;
};

/** Collects the rows of a file in its order. `add` throws a plain error that completes "it has". */
export class IndexBuilder {
  readonly #offsets = doubles();
  readonly #digests = words();
  readonly #lengths = words();
  readonly #lines = words();
  readonly #splitOf = words();
  readonly #splits = new Map<string, { readonly at: number; size: number; readonly hash: Hash }>();
  readonly #traits = new Map<string, { count: number; readonly firstLine: number }>();
  readonly #ids = new IdSet();

  get rows(): number {
    return this.#lengths.length;
  }

  add({ facts, digest, offset, length, line }: IndexedRow): void {
    if (this.rows === most.rows) throw new Error(`more than ${most.rows} tasks`);
    const { split: name, id, traits } = facts;
    if (id !== null) {
      const other = this.#ids.add(id, this.rows);
      if (other !== null) throw new Error(`the id "${id}" of the task on line ${this.#lines.get(other)}`);
    }
    let split = this.#splits.get(name);
    if (split === undefined) {
      if (this.#splits.size === most.splits) throw new Error(`another split, and there are ${most.splits} before it`);
      split = { at: this.#splits.size, size: 0, hash: createHash("sha256") };
      this.#splits.set(name, split);
    }
    split.size++;
    split.hash.update(digest);
    for (const trait of traits) {
      const known = this.#traits.get(trait);
      if (known !== undefined) known.count++;
      else if (this.#traits.size < most.traits) this.#traits.set(trait, { count: 1, firstLine: line });
      else throw new Error(`"${trait}", and there are ${most.traits} others before it`);
    }
    this.#offsets.push(offset);
    this.#lengths.push(length);
    this.#lines.push(line);
    this.#splitOf.push(split.at);
    this.#digests.push(digest.readUInt32LE(0));
    this.#digests.push(digest.readUInt32LE(4));
  }

  finish(header: readonly string[] | null): TaskIndex {
    const { rows } = this;
    const splits = [...this.#splits].map(([name, { size, hash: all }]) => ({ name, size, hash: all.digest("hex") }));
    const index: TaskIndex = {
      facts: { rows, header, splits, traits: [...this.#traits].map(([name, facts]) => ({ name, ...facts })) },
      offsets: new Float64Array(rows),
      digests: new Uint32Array(2 * rows),
      lengths: new Uint32Array(rows),
      lines: new Uint32Array(rows),
    };
    let start = 0;
    const next = splits.map(({ size }) => (start += size) - size);
    for (let row = 0; row < rows; row++) {
      const place = next[this.#splitOf.get(row)]!++;
      index.offsets[place] = this.#offsets.get(row);
      index.lengths[place] = this.#lengths.get(row);
      index.lines[place] = this.#lines.get(row);
      index.digests[2 * place] = this.#digests.get(2 * row);
      index.digests[2 * place + 1] = this.#digests.get(2 * row + 1);
    }
    return index;
  }
}

/**
 * Finds ids that occur twice, by 8 bytes of their hash: 24 bytes an id, where a set of strings
 * would take hundreds.
 */
class IdSet {
  readonly #hashes = words();
  /** Row + 1 of each place of the hash table; 0 for a free one. */
  #places = new Uint32Array(2048);

  /** The earlier row with this id; `null` if there is none. */
  add(id: string, row: number): number | null {
    const digest = hash("sha256", id, "buffer");
    const [low, high] = [digest.readUInt32LE(0), digest.readUInt32LE(4)];
    if (2 * (row + 1) > this.#places.length) this.#grow();
    const place = this.#placeOf(low, high);
    const found = this.#places[place]!;
    if (found !== 0) return found - 1;
    this.#places[place] = row + 1;
    this.#hashes.push(low);
    this.#hashes.push(high);
    return null;
  }

  /** The place of this hash, or the free one where it belongs. */
  #placeOf(low: number, high: number): number {
    const mask = this.#places.length - 1;
    for (let place = low & mask; ; place = (place + 1) & mask) {
      const row = this.#places[place]! - 1;
      if (row === -1 || (this.#hashes.get(2 * row) === low && this.#hashes.get(2 * row + 1) === high)) return place;
    }
  }

  #grow(): void {
    this.#places = new Uint32Array(2 * this.#places.length);
    for (let row = 0; row < this.#hashes.length / 2; row++) {
      this.#places[this.#placeOf(this.#hashes.get(2 * row), this.#hashes.get(2 * row + 1))] = row + 1;
    }
  }
}

/** Owner of a stored index: another reader, machine or state of the file has another one. */
export type IndexOwner = { readonly reader: string; readonly file: string; readonly state: FileState };

const version = 1;
const checksumBytes = 32;
/** The order of the bytes in numbers, which differs between machines. */
const order = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1 ? "little" : "big";

type StoredHeader = IndexOwner & { readonly version: number; readonly order: string; readonly facts: IndexFacts };

/** The index as bytes: the length of its header, the header, the numbers, and a checksum. */
export function writeIndex(index: TaskIndex, owner: IndexOwner): Buffer {
  const stored: StoredHeader = { ...owner, version, order, facts: index.facts };
  const text = JSON.stringify(stored);
  // Numbers of 8 bytes begin at multiples of 8.
  const header = Buffer.from(text + " ".repeat((8 - ((Buffer.byteLength(text) + 8) % 8)) % 8));
  const length = Buffer.alloc(8);
  length.writeUInt32LE(header.length);
  const { offsets, digests, lengths, lines } = index;
  const parts = [offsets, digests, lengths, lines].map((list) =>
    Buffer.from(list.buffer, list.byteOffset, list.byteLength),
  );
  const all = Buffer.concat([length, header, ...parts, Buffer.alloc(checksumBytes)]);
  checksumOf(all).copy(all, all.length - checksumBytes);
  return all;
}

/** The index in these bytes; `null` if it is damaged or belongs to something else. `bytes` is kept. */
export function readIndex(bytes: Buffer, owner: IndexOwner): TaskIndex | null {
  if (bytes.length < 8 + checksumBytes || bytes.byteOffset % 8 !== 0) return null;
  if (!checksumOf(bytes).equals(bytes.subarray(-checksumBytes))) return null;
  const start = 8 + bytes.readUInt32LE(0);
  const { facts, ...rest } = JSON.parse(bytes.toString("utf8", 8, start)) as StoredHeader;
  const expected: Omit<StoredHeader, "facts"> = { ...owner, version, order };
  if (JSON.stringify(rest) !== JSON.stringify(expected)) return null;
  const { rows } = facts;
  if (bytes.length !== start + 24 * rows + checksumBytes) return null;
  const at = bytes.byteOffset + start;
  return {
    facts,
    offsets: new Float64Array(bytes.buffer, at, rows),
    digests: new Uint32Array(bytes.buffer, at + 8 * rows, 2 * rows),
    lengths: new Uint32Array(bytes.buffer, at + 16 * rows, rows),
    lines: new Uint32Array(bytes.buffer, at + 20 * rows, rows),
  };
}

function checksumOf(bytes: Buffer): Buffer {
  return hash("sha256", bytes.subarray(0, -checksumBytes), "buffer");
}
