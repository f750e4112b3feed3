// What is done with groups: which are kept, what happens when episodes of one are missing, and how long the slow ones are
// waited for. A frozen value; the default keeps every group that has a reward, as it is.

import type { GroupFilter, GroupView } from "./group-filter.ts";

export type GroupPolicy = {
  /** In order; the first reason counts. */
  readonly filters: readonly GroupFilter[];
  /** A group with fewer graded episodes is dropped. At least 1. Of a producer, whose groups are trained, 2 by default. */
  readonly minGraded: number;
  /** Further episodes a group may start in place of those that were not graded. At least 0. */
  readonly replacements: number;
  /**
   * A group that is not whole so long after the last of its episodes began is cut off: those that run are cancelled, and it
   * is dropped ("drop") or judged by what has ended ("keep"). `null`: slow episodes are waited for. Depends on timing, and
   * "keep" prefers short episodes.
   */
  readonly cutoff: { readonly afterMs: number; readonly policy: "keep" | "drop" } | null;
};

export const keepAllGroups: GroupPolicy = Object.freeze({
  filters: Object.freeze([]),
  minGraded: 1,
  replacements: 0,
  cutoff: null,
});

/** A group is trained by what its rewards differ from their mean: one alone differs from nothing. */
export function minGradedToTrain(groupSize: number): number {
  return Math.min(2, groupSize);
}

/** Fills in the defaults and validates. Throws a `RangeError` that names the option and its value. */
export function resolveGroupPolicy(policy: Partial<GroupPolicy>, groupSize: number): GroupPolicy {
  const resolved = { ...keepAllGroups, ...policy };
  const { minGraded, replacements, cutoff } = resolved;
  if (!Number.isInteger(minGraded) || minGraded < 1 || minGraded > groupSize) {
    throw new RangeError(
      `Cannot roll out: minGraded is ${minGraded}, a whole number from 1 to the group size ${groupSize} is needed.`,
    );
  }
  if (!Number.isInteger(replacements) || replacements < 0) {
    throw new RangeError(`Cannot roll out: replacements is ${replacements}, a whole number of at least 0 is needed.`);
  }
  if (cutoff !== null && !(cutoff.afterMs > 0)) {
    throw new RangeError(`Cannot roll out: cutoff.afterMs is ${cutoff.afterMs}, more than 0 is needed.`);
  }
  return resolved;
}

/** Why the group is dropped; `null`: it may be kept. `isCutOff`: it ended before it was whole. */
export function judgeGroup(group: GroupView, policy: GroupPolicy, isCutOff: boolean): string | null {
  const { length } = group.rewards;
  if (isCutOff && (policy.cutoff?.policy === "drop" || length < policy.minGraded)) return "cut-off";
  if (length === 0) return "not-graded";
  if (length < policy.minGraded) return "too-few-graded";
  for (const filter of policy.filters) {
    const reason = filter(group);
    if (reason !== null) return reason;
  }
  return null;
}
