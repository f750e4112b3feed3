// Seeded randomness that depends on a path of names, never on the order of calls: the same (run
// seed, task, sample, turn) yields the same stream in every process. Not for secrets.

export type Random = {
  /** Uniform number in [0, 1). */
  next(this: void): number;
  /** Uniform integer in [0, bound). */
  integer(this: void, bound: number): number;
  /** A random item. Throws a `RangeError` for an empty list. */
  pick<T>(this: void, items: readonly T[]): T;
  /** A shuffled copy. */
  shuffle<T>(this: void, items: readonly T[]): T[];
};

/** Derives an unsigned 32-bit seed from a seed and a path of names (FNV-1a over UTF-16 units, then the murmur3 finalizer). */
export function deriveSeed(seed: number, ...path: readonly (string | number)[]): number {
  let hash = (0x811c9dc5 ^ seed) >>> 0;
  for (const part of path) {
    const text = `${typeof part === "number" ? "n" : "s"}${part}\u0000`;
    for (let index = 0; index < text.length; index++) {
      hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193) >>> 0;
    }
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/**
 * Creates a generator for one seed (mulberry32: 32 bits of state, period 2^32, sufficient for one
 * episode).
 */
export function createRandom(seed: number): Random {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
  const integer = (bound: number): number => Math.floor(next() * bound);
  return {
    next,
    integer,
    pick: (items) => {
      if (items.length === 0) throw new RangeError("Cannot pick from an empty list.");
      return items[integer(items.length)]!;
    },
    shuffle: (items) => {
      const shuffled = [...items];
      for (let index = shuffled.length - 1; index > 0; index--) {
        const other = integer(index + 1);
        [shuffled[index], shuffled[other]] = [shuffled[other]!, shuffled[index]!];
      }
      return shuffled;
    },
  };
}
