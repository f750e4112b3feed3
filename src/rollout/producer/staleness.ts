// Age of the weights of a group, and the number of groups that may be begun without becoming too
// old before they are trained. Pure; versions are the trainer's, in the order in which it reported
// them.

import type { WeightSpan } from "../../core/index.ts";

/** Weights that sampled tokens, or none where `tokenCount` is 0. */
export type UsedWeights = Pick<WeightSpan, "dispatch" | "reply"> & { readonly tokenCount?: number };

export type CapacityInput = {
  /** A group may be trained by weights at most so many versions younger than its oldest token. */
  readonly maxStaleness: number;
  /** Versions that the trainer has reported so far, the first one not counted. */
  readonly version: number;
  /** Groups that the trainer takes for one version. */
  readonly batchGroups: number;
  /** Groups that were handed over, and those that wait to be. */
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
 * The versions that a trainer reported, numbered from 0. Names may be anything. One that is reported again has its number again:
 * the trainer went back to a checkpoint, and is at that point of its way once more.
 */
export class WeightHistory {
  readonly #numbers = new Map<string, number>();
  readonly #reported = new Set<string>();
  #newest = 0;
  #current = 0;

  /** `first`: what the engine has at the beginning, which another training may have named; `null`: not known. */
  constructor(first: string | null) {
    if (first !== null) this.#numbers.set(first, 0);
  }

  get current(): number {
    return this.#current;
  }

  /** The same version again changes nothing. */
  report(version: string): void {
    const known = this.#numbers.get(version);
    const isKnown = known === this.#current || this.#reported.has(version);
    this.#reported.add(version);
    this.#current = isKnown && known !== undefined ? known : ++this.#newest;
    this.#numbers.set(version, this.#current);
  }

  /**
   * The number of the oldest version in the spans. A version at dispatch that is not known, and any that was never reported,
   * counts as `begunAt`: the version that was current when the episode began, which none of its tokens can be older than.
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
