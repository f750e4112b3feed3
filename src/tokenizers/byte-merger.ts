// Byte-pair merging of one piece: starting from single bytes, the adjacent pair with the lowest
// rank merges first, the leftmost of equals, until no pair merges. Two forms of the same rule: a
// plain scan for short pieces, which most text consists of, and a heap over a linked list for long
// ones, so that 20,000 equal characters cost milliseconds, not minutes. Also a cache for the results.

import { finish, type Steps } from "../lib/steps.ts";
import type { MergeTable } from "./byte-table.ts";

/**
 * Length from which the heap is faster. Measured on random letters: a quarter slower at 64 bytes, a
 * sixth faster at 128.
 */
const longPiece = 100;
const noRank = 0x7fff_ffff;
/** Number of bytes or merges of a long piece per step. */
const stepMerges = 4096;
/** Heap keys are `rank * positions + position`, exact below 2^53. */
const positions = 2 ** 32;

export class ByteMerger {
  readonly #byteIds: Uint32Array;
  readonly #merges: MergeTable;
  readonly #ids = new Int32Array(longPiece);
  readonly #places = new Int32Array(longPiece);

  /** `byteIds` has the id of every single byte. */
  constructor(byteIds: Uint32Array, merges: MergeTable) {
    this.#byteIds = byteIds;
    this.#merges = merges;
  }

  /** Writes the ids of the piece to `target`, which has room for one id per byte, and returns their number. */
  merge(bytes: Uint8Array, length: number, target: Uint32Array): number {
    return length < longPiece
      ? this.#scan(bytes, length, target)
      : finish(this.mergeInSteps(bytes.subarray(0, length), target));
  }

  /** Merges the first `length` of `symbols`, ids of tokens. Writes to `target` as {@link merge} does. */
  mergeSymbols(symbols: Int32Array, length: number, target: Uint32Array): number {
    if (length >= longPiece) return finish(this.#mergeWithHeap(symbols.slice(0, length), target));
    this.#ids.set(symbols.subarray(0, length));
    return this.#scanIds(length, target);
  }

  #scan(bytes: Uint8Array, length: number, target: Uint32Array): number {
    const ids = this.#ids;
    for (let at = 0; at < length; at++) ids[at] = this.#byteIds[bytes[at] ?? 0] ?? 0;
    return this.#scanIds(length, target);
  }

  /** Merges the first `length` of `#ids`. */
  #scanIds(length: number, target: Uint32Array): number {
    const ids = this.#ids;
    const places = this.#places;
    const merges = this.#merges;
    for (let at = 0; at + 1 < length; at++) places[at] = merges.find(ids[at] ?? 0, ids[at + 1] ?? 0);
    let count = length;
    for (;;) {
      let best = -1;
      let bestRank = noRank;
      for (let at = 0; at + 1 < count; at++) {
        const place = places[at] ?? -1;
        if (place < 0) continue;
        const rank = merges.rankAt(place);
        if (rank < bestRank) {
          bestRank = rank;
          best = at;
        }
      }
      if (best < 0) break;
      ids[best] = merges.mergedAt(places[best] ?? 0);
      count--;
      for (let at = best + 1; at < count; at++) {
        ids[at] = ids[at + 1] ?? 0;
        places[at] = places[at + 1] ?? 0;
      }
      if (best > 0) places[best - 1] = merges.find(ids[best - 1] ?? 0, ids[best] ?? 0);
      if (best + 1 < count) places[best] = merges.find(ids[best] ?? 0, ids[best + 1] ?? 0);
    }
    for (let at = 0; at < count; at++) target[at] = ids[at] ?? 0;
    return count;
  }

  /** The same for a long piece, which may be a whole text without a space. */
  *mergeInSteps(bytes: Uint8Array, target: Uint32Array): Steps<number> {
    const ids = Int32Array.from(bytes, (byte) => this.#byteIds[byte] ?? 0);
    return yield* this.#mergeWithHeap(ids, target);
  }

  /** Overwrites `ids`. */
  *#mergeWithHeap(ids: Int32Array, target: Uint32Array): Steps<number> {
    const { length } = ids;
    const merges = this.#merges;
    const next = new Int32Array(length);
    const previous = new Int32Array(length);
    /**
     * Rank of the pair that begins here; `noRank` if it does not merge, or if no symbol begins here
     * any more.
     */
    const ranks = new Int32Array(length).fill(noRank);
    // Every merge removes one symbol and announces at most two pairs.
    const heap = new Heap(3 * length);
    const announce = (at: number): void => {
      const right = next[at] ?? length;
      const place = right < length ? merges.find(ids[at] ?? 0, ids[right] ?? 0) : -1;
      const rank = place < 0 ? noRank : merges.rankAt(place);
      ranks[at] = rank;
      if (place >= 0) heap.push(rank * positions + at);
    };
    for (let at = 0; at < length; at++) {
      next[at] = at + 1;
      previous[at] = at - 1;
    }
    for (let at = 0; at < length; at++) {
      announce(at);
      if (at % stepMerges === stepMerges - 1) yield;
    }
    for (let merged = 0; heap.size > 0; merged++) {
      if (merged % stepMerges === stepMerges - 1) yield;
      const key = heap.pop();
      const rank = Math.floor(key / positions);
      const at = key - rank * positions;
      // A pair whose members have changed since it was announced.
      if (ranks[at] !== rank) continue;
      const right = next[at] ?? length;
      const after = next[right] ?? length;
      ids[at] = merges.mergedAt(merges.find(ids[at] ?? 0, ids[right] ?? 0));
      ranks[right] = noRank;
      next[at] = after;
      if (after < length) previous[after] = at;
      announce(at);
      const before = previous[at] ?? -1;
      if (before >= 0) announce(before);
    }
    let count = 0;
    for (let at = 0; at < length; at = next[at] ?? length) target[count++] = ids[at] ?? 0;
    return count;
  }
}

/** The smallest number first. */
class Heap {
  readonly #keys: Float64Array;
  size = 0;

  constructor(capacity: number) {
    this.#keys = new Float64Array(capacity);
  }

  push(key: number): void {
    const keys = this.#keys;
    let at = this.size++;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      const above = keys[parent] ?? 0;
      if (above <= key) break;
      keys[at] = above;
      at = parent;
    }
    keys[at] = key;
  }

  pop(): number {
    const keys = this.#keys;
    const top = keys[0] ?? 0;
    const last = keys[--this.size] ?? 0;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= this.size) break;
      if (child + 1 < this.size && (keys[child + 1] ?? 0) < (keys[child] ?? 0)) child++;
      const below = keys[child] ?? 0;
      if (below >= last) break;
      keys[at] = below;
      at = child;
    }
    keys[at] = last;
    return top;
  }
}

/** Length from which V8 stores a substring as a slice that keeps the whole text alive. */
const sharedSubstring = 13;

/** Longer strings are kept as given, without a copy. */
export const longestCopied = 64;

/**
 * Cache of recently used values, bounded by two generations: a full young one becomes the old one,
 * and an old value that is used again moves back, which costs one lookup where an exact LRU costs a
 * list.
 */
export class RecentStrings<Value> {
  #young = new Map<string, Value>();
  #old = new Map<string, Value>();
  readonly #generationSize: number;

  constructor(generationSize: number) {
    this.#generationSize = generationSize;
  }

  get(text: string): Value | undefined {
    const value = this.#young.get(text);
    if (value !== undefined) return value;
    const older = this.#old.get(text);
    if (older !== undefined) this.set(text, older);
    return older;
  }

  set(text: string, value: Value): void {
    if (this.#young.size >= this.#generationSize) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    const isShared = text.length >= sharedSubstring && text.length <= longestCopied;
    this.#young.set(isShared ? copyOf(text) : text, value);
  }
}

/** A copy of the text that shares no memory with a longer one. */
function copyOf(text: string): string {
  return String.fromCharCode(...Array.from({ length: text.length }, (_, index) => text.charCodeAt(index)));
}
