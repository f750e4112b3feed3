// How old the tokens of groups are, counted in versions of the trainer, from the beginning of a group until it is decided.

import type { WeightSpan } from "../../core/index.ts";
import type { WeightHistory } from "./staleness.ts";

type Age = {
  /** Number of the version when it was begun: none of its tokens is older, whatever the engine calls it. */
  readonly begunAt: number;
  /** Each pair of versions that its tokens have, once: a server may have weights before the trainer reports them. */
  readonly spans: Map<string, WeightSpan>;
};

export class GroupAges {
  readonly #history: WeightHistory;
  /** By number of the group. */
  readonly #ages = new Map<number, Age>();

  constructor(history: WeightHistory) {
    this.#history = history;
  }

  begin(groupIndex: number, begunAt: number): void {
    this.#ages.set(groupIndex, { begunAt, spans: new Map() });
  }

  see(groupIndex: number, spans: readonly WeightSpan[]): void {
    const age = this.#ages.get(groupIndex);
    if (age === undefined) return;
    for (const span of spans) {
      if (span.tokenCount > 0) age.spans.set(JSON.stringify([span.dispatch, span.reply]), span);
    }
  }

  staleness(groupIndex: number): number {
    const { current } = this.#history;
    const age = this.#ages.get(groupIndex);
    return age === undefined ? 0 : current - this.#history.oldest([...age.spans.values()], age.begunAt);
  }

  forget(groupIndex: number): void {
    this.#ages.delete(groupIndex);
  }
}
