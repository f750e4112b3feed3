// Counts the groups that a run still needs, and selects which of the passing ones are kept. Pure
// bookkeeping: it runs nothing and waits for nothing.
//
// Plan order ("plan"): a group is kept when it is among the first `target` of the plan that pass.
// The selection then depends on the plan and on rewards, never on which episode ended first.
// Finishing order ("finished"): the first `target` that pass are kept; faster, and biased towards
// short episodes.

import { requireWhole, requireWholeOrInfinite } from "../lib/limits.ts";

export type QuotaOptions = {
  /** Groups to keep; `null`: every group that passes. */
  readonly target: number | null;
  /** Multiple of `target` that may be in flight or kept at once. At least 1. */
  readonly oversample: number;
  readonly order: "plan" | "finished";
  /** Maximum number of opened groups before the run gives up. */
  readonly maxGroups: number;
};

type State = "open" | "passed" | "kept" | "dropped";

/** Decisions of a quota about groups that passed, by number of the group. */
export type QuotaDecisions = { readonly kept: readonly number[]; readonly surplus: readonly number[] };

export class GroupQuota {
  readonly #options: QuotaOptions;
  readonly #target: number;
  /** States indexed by number of the group. */
  readonly #states: State[] = [];
  #kept = 0;
  #undecided = 0;

  constructor(options: QuotaOptions) {
    const { target, oversample, maxGroups } = options;
    if (target !== null) requireWhole("roll out", "quota.target", target);
    if (!(oversample >= 1)) {
      throw new RangeError(`Cannot roll out: oversample is ${oversample}, expected a number of at least 1.`);
    }
    requireWholeOrInfinite("roll out", "maxGroups", maxGroups);
    this.#options = options;
    this.#target = target ?? Infinity;
  }

  /** Number of groups opened so far, which is the number of the next one. */
  get opened(): number {
    return this.#states.length;
  }

  /** True if enough groups are kept, so that all open ones are surplus. */
  get isMet(): boolean {
    return this.#kept >= this.#target;
  }

  /** True if the next group of the plan may be opened now. */
  get mayOpen(): boolean {
    const { oversample, maxGroups } = this.#options;
    if (this.#states.length >= maxGroups || this.isMet) return false;
    return this.#kept + this.#undecided < Math.ceil(this.#target * oversample);
  }

  /** Opens the next group of the plan and returns its number. */
  open(): number {
    this.#undecided++;
    return this.#states.push("open") - 1;
  }

  drop(groupIndex: number): QuotaDecisions {
    return this.#settle(groupIndex, "dropped");
  }

  /** Records that the group passed its filters; this call and later ones return whether it is kept. */
  pass(groupIndex: number): QuotaDecisions {
    return this.#settle(groupIndex, "passed");
  }

  /** Restores the decision of an earlier run of the same plan. */
  restore(groupIndex: number, decision: "kept" | "dropped"): void {
    this.#set(groupIndex, decision);
  }

  #settle(groupIndex: number, finished: "passed" | "dropped"): QuotaDecisions {
    const kept: number[] = [];
    const surplus: number[] = [];
    this.#set(groupIndex, finished);
    /** Earlier groups that are kept, or may still be. */
    let before = 0;
    // Without a target every group that passes is kept, independent of the others.
    for (const index of this.#target === Infinity ? [groupIndex] : this.#states.keys()) {
      if (this.#states[index] === "passed") {
        const isCertain = (this.#options.order === "plan" ? before : this.#kept) < this.#target;
        if (isCertain) {
          this.#set(index, "kept");
          kept.push(index);
        } else if (this.isMet) {
          this.#set(index, "dropped");
          surplus.push(index);
        }
      }
      if (this.#states[index] !== "dropped") before++;
    }
    return { kept, surplus };
  }

  #set(groupIndex: number, state: State): void {
    this.#states[groupIndex] = state;
    if (state === "kept") this.#kept++;
    if (state !== "passed") this.#undecided--;
  }
}
