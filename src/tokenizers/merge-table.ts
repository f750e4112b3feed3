// The merges of a byte-pair encoding as one hash table of integers: pair of ids to rank and merged id. A `Map` keyed by
// pairs costs three times the memory and lookups, and a vocabulary has 150,000 merges.

const emptySlot = -1;
/** Integers per slot: left id, right id, rank, merged id. */
const stride = 4;

export class MergeTable {
  readonly #slots: Int32Array;
  readonly #mask: number;

  /** Makes room for `count` merges. */
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

  /** The place of a pair's merge, for `rankAt` and `mergedAt`; -1 when the pair does not merge. */
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
