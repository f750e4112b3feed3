// How old the tokens of groups are, counted in versions of the trainer, from the beginning of a group until it is decided.

import type { WeightSpan } from "../../core/index.ts";
import type { WeightHistory } from "./staleness.ts";

type Age = {
  /** Number of the version when it was begun: none of its tokens is older, whatever the engine calls it. */
  readonly begunAt: number;
  /** Number of the oldest version among its tokens so far; `Infinity`: there is none yet. */
  oldest: number;
};

export class GroupAges {
  readonly #history: WeightHistory;
  /** By number of the group. */
  readonly #ages = new Map<number, Age>();

  constructor(history: WeightHistory) {
    this.#history = history;
  }

  begin(groupIndex: number, begunAt: number): void {
    this.#ages.set(groupIndex, { begunAt, oldest: Infinity });
  }

  see(groupIndex: number, spans: readonly WeightSpan[]): void {
    const age = this.#ages.get(groupIndex);
    if (age !== undefined) age.oldest = Math.min(age.oldest, this.#history.oldest(spans, age.begunAt));
  }

  staleness(groupIndex: number): number {
    const { current } = this.#history;
    return current - Math.min(current, this.#ages.get(groupIndex)?.oldest ?? current);
  }

  forget(groupIndex: number): void {
    this.#ages.delete(groupIndex);
  }
}
