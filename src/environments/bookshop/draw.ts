// Seeded drawing for one task, with the law that keeps train and test apart: a combination belongs to the test split
// exactly when the sum of its parts (places in lists, pairs of digits) is divisible by four. So both splits use every
// word and every pair of digits, and share no id, no full name, no title and no address.

import { createRandom, type Random } from "../../lib/random.ts";

export type BookshopSplit = "train" | "test";
export type IdKind = "M" | "W" | "B" | "C";

/** Whether a combination, given by the sum of its parts, belongs to the split. */
export function belongsTo(split: BookshopSplit, sum: number): boolean {
  return (sum % 4 === 0) === (split === "test");
}

export class Draw {
  readonly split: BookshopSplit;
  readonly #random: Random;
  readonly #used = new Set<string>();

  constructor(split: BookshopSplit, seed: number) {
    this.split = split;
    this.#random = createRandom(seed);
  }

  chance(probability: number): boolean {
    return this.#random.next() < probability;
  }

  /** Uniform in [low, high]. */
  between(low: number, high: number): number {
    return low + this.#random.integer(high - low + 1);
  }

  pick<T>(items: readonly T[]): T {
    return this.#random.pick(items);
  }

  shuffle<T>(items: readonly T[]): T[] {
    return this.#random.shuffle(items);
  }

  /** Two items whose combination belongs to the split and was not drawn before. */
  pair<A, B>(first: readonly A[], second: readonly B[]): readonly [A, B] {
    const [a, b] = this.#fresh(first.length, second.length, "pair");
    return [first[a]!, second[b]!];
  }

  /** A typed id such as `#W1042`, new in this task. */
  id(kind: IdKind): string {
    const [high, low] = this.#fresh(90, 100, kind, 10);
    return `#${kind}${high}${String(low).padStart(2, "0")}`;
  }

  /** An amount in [low, high] that belongs to the split. */
  amount(low: number, high: number): number {
    const wanted = this.between(low, high);
    for (let step = 0; ; step++) {
      const amount = low + ((wanted - low + step) % (high - low + 1));
      if (belongsTo(this.split, amount) || step > high - low) return amount;
    }
  }

  #fresh(firstLength: number, secondLength: number, space: string, offset = 0): readonly [number, number] {
    for (;;) {
      const first = offset + this.#random.integer(firstLength);
      const second = this.#random.integer(secondLength);
      const name = `${space}/${firstLength}/${first}/${second}`;
      if (!belongsTo(this.split, first + second) || this.#used.has(name)) continue;
      this.#used.add(name);
      return [first, second];
    }
  }
}
