// How many groups a run still needs, and which of those that pass are kept. Pure bookkeeping: it runs nothing and waits for
// nothing.
//
// Plan order ("plan"): a group is kept when it is among the first `target` of the plan that pass. Which ones are kept then
// depends on the plan and on rewards, never on which episode ended first. Finishing order ("finished"): the first `target`
// that pass are kept; faster, and biased towards short episodes.

export type QuotaOptions = {
  /** Groups to keep; `null`: every group that passes. */
  readonly target: number | null;
  /** So many times `target` may be in flight or kept at once. At least 1. */
  readonly oversample: number;
  readonly order: "plan" | "finished";
  /** Groups that are opened in all before the run gives up. */
  readonly maxGroups: number;
};

type State = "open" | "passed" | "kept" | "dropped";

/** What a quota makes of the groups that passed, by number of the group. */
export type QuotaDecisions = { readonly kept: readonly number[]; readonly surplus: readonly number[] };

export class GroupQuota {
  readonly #options: QuotaOptions;
  /** By number of the group. */
  readonly #states: State[] = [];
  #kept = 0;
  #undecided = 0;

  constructor(options: QuotaOptions) {
    const { target, oversample, maxGroups } = options;
    const isWhole = (value: number): boolean => Number.isInteger(value) && value >= 1;
    if (target !== null && !isWhole(target)) {
      throw new RangeError(`Cannot roll out: quota.target is ${target}, a whole number of at least 1 is needed.`);
    }
    if (!(oversample >= 1)) {
      throw new RangeError(`Cannot roll out: oversample is ${oversample}, a number of at least 1 is needed.`);
    }
    if (maxGroups !== Infinity && !isWhole(maxGroups)) {
      throw new RangeError(`Cannot roll out: maxGroups is ${maxGroups}, a whole number of at least 1 is needed.`);
    }
    this.#options = options;
  }

  get kept(): number {
    return this.#kept;
  }

  /** Groups opened so far; the number of the next one. */
  get opened(): number {
    return this.#states.length;
  }

  /** Enough groups are kept: what is open is surplus. */
  get isMet(): boolean {
    return this.#options.target !== null && this.#kept >= this.#options.target;
  }

  /** Whether the next group of the plan may be opened now. */
  get mayOpen(): boolean {
    const { target, oversample, maxGroups } = this.#options;
    if (this.#states.length >= maxGroups) return false;
    return target === null || (!this.isMet && this.#kept + this.#undecided < Math.ceil(target * oversample));
  }

  /** The next group of the plan is opened; returns its number. */
  open(): number {
    this.#undecided++;
    return this.#states.push("open") - 1;
  }

  drop(groupIndex: number): QuotaDecisions {
    this.#states[groupIndex] = "dropped";
    this.#undecided--;
    return this.#options.target === null ? { kept: [], surplus: [] } : this.#settle(this.#options.target);
  }

  /** The group passed its filters; whether it is kept now, later or not at all is in what this and later calls return. */
  pass(groupIndex: number): QuotaDecisions {
    this.#states[groupIndex] = "passed";
    if (this.#options.target !== null) return this.#settle(this.#options.target);
    const kept: number[] = [];
    this.#keep(groupIndex, kept);
    return { kept, surplus: [] };
  }

  /** A decision that was made before, by an earlier run of the same plan. */
  restore(groupIndex: number, decision: "kept" | "dropped"): void {
    this.#states[groupIndex] = decision;
    this.#undecided--;
    if (decision === "kept") this.#kept++;
  }

  #settle(target: number): QuotaDecisions {
    const { order } = this.#options;
    const kept: number[] = [];
    const surplus: number[] = [];
    /** Groups before this one that are kept or still can be. */
    let before = 0;
    for (const [index, state] of this.#states.entries()) {
      if (state === "passed") {
        const isCertain = (order === "plan" ? before : this.#kept) < target;
        if (isCertain) this.#keep(index, kept);
        else if (this.isMet) this.#dropSurplus(index, surplus);
      }
      if (this.#states[index] !== "dropped") before++;
    }
    return { kept, surplus };
  }

  #keep(index: number, kept: number[]): void {
    this.#states[index] = "kept";
    this.#kept++;
    this.#undecided--;
    kept.push(index);
  }

  #dropSurplus(index: number, surplus: number[]): void {
    this.#states[index] = "dropped";
    this.#undecided--;
    surplus.push(index);
  }
}
