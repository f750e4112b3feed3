// The tables of byte-level BPE: the printable stand-ins of bytes (GPT-2's choice, a fact of the
// format), the merges, and the bytes of every token by id, packed, with a lookup from bytes to id.
// Tokens of a byte-level vocabulary are bytes, not text: many end in the middle of a character.
// Strings of the vocabulary file are not kept in memory.

const emptySlot = -1;
/** Integers per slot: left id, right id, rank, merged id. */
const stride = 4;

export class MergeTable {
  readonly #slots: Int32Array;
  readonly #mask: number;

  /** Allocates room for `count` merges. */
  constructor(count: number) {
    const capacity = 2 ** Math.ceil(Math.log2(Math.max(2, count * 2)));
    this.#mask = capacity - 1;
    this.#slots = new Int32Array(capacity * stride).fill(emptySlot);
  }

  /** A pair that is set again keeps its later rank. */
  set(left: number, right: number, rank: number, merged: number): void {
    const slot = this.#find(left, right);
    this.#slots[slot] = left;
    this.#slots[slot + 1] = right;
    this.#slots[slot + 2] = rank;
    this.#slots[slot + 3] = merged;
  }

  /** The place of a pair's merge, for `rankAt` and `mergedAt`; -1 if the pair does not merge. */
  find(left: number, right: number): number {
    const slot = this.#find(left, right);
    return this.#slots[slot] === emptySlot ? -1 : slot;
  }

  rankAt(place: number): number {
    return this.#slots[place + 2] ?? 0;
  }

  mergedAt(place: number): number {
    return this.#slots[place + 3] ?? 0;
  }

  #find(left: number, right: number): number {
    const slots = this.#slots;
    let at = Math.imul(left, 0x9e3779b1) ^ Math.imul(right, 0x85ebca6b);
    at ^= at >>> 15;
    for (;;) {
      at &= this.#mask;
      const slot = at * stride;
      const found = slots[slot];
      if (found === emptySlot || (found === left && slots[slot + 1] === right)) return slot;
      at++;
    }
  }
}

const printable = (byte: number): boolean =>
  (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;

/** The stand-in of each byte. */
export const byteCharacters: readonly string[] = makeByteCharacters();

/**
 * The byte of each stand-in by UTF-16 unit; -1 for other units. Units from `length` upwards are not
 * stand-ins.
 */
const characterBytes: Int16Array = makeCharacterBytes();

/**
 * Writes the bytes that `text` stands for at `offset`; returns their number, or -1 if a character
 * is not a stand-in.
 */
export function writeBytesOf(text: string, target: Uint8Array, offset: number): number {
  const length = text.length;
  for (let index = 0; index < length; index++) {
    const unit = text.charCodeAt(index);
    const byte = unit < characterBytes.length ? (characterBytes[unit] ?? -1) : -1;
    if (byte < 0) return -1;
    target[offset + index] = byte;
  }
  return length;
}

function makeByteCharacters(): string[] {
  let next = 0x100;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(printable(byte) ? byte : next++));
}

function makeCharacterBytes(): Int16Array {
  const bytes = new Int16Array(0x100 + 68).fill(-1);
  byteCharacters.forEach((character, byte) => {
    bytes[character.charCodeAt(0)] = byte;
  });
  return bytes;
}

/** The byte of each stand-in, by character. */
export function createCharacterBytes(): ReadonlyMap<string, number> {
  return new Map(byteCharacters.map((character, byte) => [character, byte]));
}

const missing = 0xffff_ffff;

/** A growing table of tokens. Nothing is ever removed. */
export class ByteTable {
  #bytes: Uint8Array;
  #used = 0;
  /** Start of the bytes of an id; `missing` for ids that are not tokens. */
  readonly #starts: Uint32Array;
  readonly #lengths: Uint32Array;
  /** Hash slots that hold id + 1; 0 is empty. */
  readonly #slots: Uint32Array;
  readonly #mask: number;

  /** `size`: all ids are below it. */
  constructor(size: number) {
    this.#bytes = new Uint8Array(size * 8);
    this.#starts = new Uint32Array(size).fill(missing);
    this.#lengths = new Uint32Array(size);
    const capacity = 2 ** Math.ceil(Math.log2(Math.max(2, size * 2)));
    this.#slots = new Uint32Array(capacity);
    this.#mask = capacity - 1;
  }

  get size(): number {
    return this.#starts.length;
  }

  has(id: number): boolean {
    return (this.#starts[id] ?? missing) !== missing;
  }

  /**
   * Adds a token that `find` will see. Returns false, without any change, if the id or the bytes
   * are taken.
   */
  add(id: number, source: Uint8Array, start: number, end: number): boolean {
    const slot = this.#slotOf(source, start, end);
    if (this.#slots[slot] !== 0 || !this.addHidden(id, source, start, end)) return false;
    this.#slots[slot] = id + 1;
    return true;
  }

  /**
   * Adds a token that `find` will not see, because its name is not written in bytes. Returns false
   * if the id is taken.
   */
  addHidden(id: number, source: Uint8Array, start: number, end: number): boolean {
    if (this.has(id)) return false;
    const length = end - start;
    this.#reserve(length);
    for (let at = 0; at < length; at++) this.#bytes[this.#used + at] = source[start + at] ?? 0;
    this.#starts[id] = this.#used;
    this.#lengths[id] = length;
    this.#used += length;
    return true;
  }

  /** The id of the token with exactly these bytes; -1 if none has them. */
  find(source: Uint8Array, start: number, end: number): number {
    return (this.#slots[this.#slotOf(source, start, end)] ?? 0) - 1;
  }

  /** The number of bytes of a token; 0 for ids that are not tokens. */
  lengthOf(id: number): number {
    return this.#lengths[id] ?? 0;
  }

  /** Copies the bytes of a token; returns the offset after them. */
  copyTo(id: number, target: Uint8Array, offset: number): number {
    const start = this.#starts[id] ?? missing;
    if (start === missing) return offset;
    const end = start + (this.#lengths[id] ?? 0);
    for (let from = start; from < end; from++) target[offset++] = this.#bytes[from] ?? 0;
    return offset;
  }

  #slotOf(source: Uint8Array, start: number, end: number): number {
    let hash = 0x811c9dc5;
    for (let at = start; at < end; at++) hash = Math.imul(hash ^ (source[at] ?? 0), 0x01000193);
    let slot = (hash ^ (hash >>> 15)) & this.#mask;
    for (;;) {
      const id = (this.#slots[slot] ?? 0) - 1;
      if (id < 0 || this.#equals(id, source, start, end)) return slot;
      slot = (slot + 1) & this.#mask;
    }
  }

  #equals(id: number, source: Uint8Array, start: number, end: number): boolean {
    const length = end - start;
    if (this.#lengths[id] !== length) return false;
    const own = this.#starts[id] ?? 0;
    for (let at = 0; at < length; at++) if (this.#bytes[own + at] !== source[start + at]) return false;
    return true;
  }

  #reserve(length: number): void {
    if (this.#used + length <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#used + length));
    grown.set(this.#bytes);
    this.#bytes = grown;
  }
}
