// Age of the weights of a group, and the number of groups that may be begun without becoming too
// old before they are trained. Pure; versions are the trainer's, in the order in which it reported
// them.

import type { WeightSpan } from "../../core/index.ts";

/** Weights that sampled tokens; none if `tokenCount` is 0. */
export type UsedWeights = Pick<WeightSpan, "dispatch" | "reply"> & { readonly tokenCount?: number };

export type CapacityInput = {
  /** Maximum number of versions between a group's oldest token and the weights that train on it. */
  readonly maxStaleness: number;
  /** Number of versions that the trainer has reported so far, without the first. */
  readonly version: number;
  /** Number of groups that the trainer takes per version. */
  readonly batchGroups: number;
  /** Number of groups that were handed over or wait to be. */
  readonly accepted: number;
  /** Groups in flight. */
  readonly running: number;
};

/**
 * Number of groups that may be begun now: `(maxStaleness + version + 1) * batchGroups - (accepted +
 * running)`, the formula of AReaL (2025). A group begun then belongs to the batch of version
 * `version + maxStaleness` at the latest, if batches are taken in the order in which groups were
 * begun.
 */
export function groupCapacity({ maxStaleness, version, batchGroups, accepted, running }: CapacityInput): number {
  return (maxStaleness + version + 1) * batchGroups - (accepted + running);
}

/**
 * The versions that a trainer reported, numbered from 0. Any names are allowed. A version that is
 * reported again keeps its number: the trainer went back to a checkpoint.
 */
export class WeightHistory {
  readonly #numbers = new Map<string, number>();
  readonly #reported = new Set<string>();
  #newest = 0;
  #current = 0;

  /**
   * `first`: the engine's initial version, which another training may have named; `null`: not
   * known.
   */
  constructor(first: string | null) {
    if (first !== null) this.#numbers.set(first, 0);
  }

  get current(): number {
    return this.#current;
  }

  /** Reports a version; the same one again changes nothing. */
  report(version: string): void {
    const known = this.#numbers.get(version);
    const isKnown = known === this.#current || this.#reported.has(version);
    this.#reported.add(version);
    this.#current = isKnown && known !== undefined ? known : ++this.#newest;
    this.#numbers.set(version, this.#current);
  }

  /**
   * The number of the oldest version in the spans. An unknown version at dispatch, or one that was
   * never reported, counts as `begunAt`: the version that was current when the episode began, so
   * that none of its tokens can be older.
   */
  oldest(spans: readonly UsedWeights[], begunAt: number): number {
    let oldest = this.#current;
    for (const { dispatch, reply, tokenCount } of spans) {
      if (tokenCount === 0) continue;
      // A reply without a version has weights at least as new as its dispatch.
      for (const version of [dispatch, reply ?? dispatch]) {
        oldest = Math.min(oldest, (version === null ? undefined : this.#numbers.get(version)) ?? begunAt);
      }
    }
    return oldest;
  }
}
