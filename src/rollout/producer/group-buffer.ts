// Groups that wait for a trainer, and trainers that wait for groups. Ordered by when groups were
// begun, so that the oldest weights are trained first. It serves only whole requests, and knows
// nothing of versions: the age of groups is measured by its owner when they are handed over.

import { subscribeToAbort } from "../../lib/deadline.ts";
import type { FinishedGroup } from "../groups.ts";

/** A group that is handed over, and its staleness at that moment. */
export type HandedGroup = { readonly group: FinishedGroup; readonly staleness: number };

type Taker = {
  readonly count: number;
  readonly resolve: (groups: readonly HandedGroup[]) => void;
  readonly reject: (error: Error) => void;
};

export class GroupBuffer {
  readonly #groups: FinishedGroup[] = [];
  readonly #takers: Taker[] = [];
  readonly #stalenessOf: (group: FinishedGroup) => number;
  #taken: number;
  #isClosed = false;
  #fault: Error | null = null;

  /** `taken`: number of groups that an earlier process handed over. */
  constructor(options: { readonly taken: number; readonly stalenessOf: (group: FinishedGroup) => number }) {
    this.#taken = options.taken;
    this.#stalenessOf = options.stalenessOf;
  }

  /** Number of waiting groups. */
  get size(): number {
    return this.#groups.length;
  }

  /** Number of groups handed over so far. */
  get taken(): number {
    return this.#taken;
  }

  /** Number of groups that takers wait for. */
  get requested(): number {
    return this.#takers.reduce((sum, { count }) => sum + count, 0);
  }

  put(group: FinishedGroup): void {
    const place = this.#groups.findIndex(({ plan }) => plan.groupIndex > group.plan.groupIndex);
    this.#groups.splice(place === -1 ? this.#groups.length : place, 0, group);
    this.#serve();
  }

  /** Removes waiting groups that match, without handing them over. */
  remove(which: (group: FinishedGroup) => boolean): FinishedGroup[] {
    const removed = this.#groups.filter(which);
    for (const group of removed) this.#groups.splice(this.#groups.indexOf(group), 1);
    return removed;
  }

  /**
   * Takes groups, first come, first served. Resolves with fewer groups, or none, once the buffer is
   * closed.
   */
  async take(count: number, signal?: AbortSignal): Promise<readonly HandedGroup[]> {
    signal?.throwIfAborted();
    if (this.#fault !== null) throw this.#fault;
    let unsubscribe = (): void => undefined;
    try {
      return await new Promise<readonly HandedGroup[]>((resolve, reject) => {
        const taker = { count, resolve, reject };
        this.#takers.push(taker);
        unsubscribe = subscribeToAbort(signal, () => {
          if (!this.#takers.includes(taker)) return;
          this.#takers.splice(this.#takers.indexOf(taker), 1);
          reject(signal?.reason as Error);
          this.#serve();
        });
        this.#serve();
      });
    } finally {
      unsubscribe();
    }
  }

  /** Closes the buffer: waiting takers get the groups that are there, later ones the rest. */
  close(): void {
    this.#isClosed = true;
    this.#serve();
  }

  /** Stops handing over groups; waiting and later takers are rejected with the fault. */
  fail(fault: Error): void {
    this.#fault = fault;
    this.#groups.length = 0;
    for (const taker of this.#takers.splice(0)) taker.reject(fault);
  }

  #serve(): void {
    for (let taker = this.#takers[0]; taker !== undefined; taker = this.#takers[0]) {
      if (this.#groups.length < taker.count && !this.#isClosed) return;
      this.#takers.shift();
      const groups = this.#groups.splice(0, taker.count);
      this.#taken += groups.length;
      taker.resolve(groups.map((group) => ({ group, staleness: this.#stalenessOf(group) })));
    }
  }
}
