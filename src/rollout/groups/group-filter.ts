// Which groups are worth training on. A filter sees a whole group and says why it is to be dropped, or nothing; it changes
// no reward. Filters are judged in order, and the first reason counts.

import type { Episode, Task } from "../../core/index.ts";

/** A group whose episodes have ended. */
export type GroupView = {
  readonly task: Task;
  readonly groupIndex: number;
  /** Of the graded episodes, by place in the group. */
  readonly rewards: readonly number[];
  /** All of them, by place in the group. */
  readonly episodes: readonly Episode[];
};

/** The reason for dropping the group, `null` to keep it. Must depend on the group alone: it may be asked in any order. */
export type GroupFilter = (group: GroupView) => string | null;

/**
 * Drops groups whose graded rewards are all alike: their advantages are zero and teach nothing (dynamic sampling, DAPO 2025).
 * Rewards count as alike within `tolerance`, 1e-6 by default.
 */
export function dropZeroSignal(options: { readonly tolerance?: number } = {}): GroupFilter {
  const { tolerance = 1e-6 } = options;
  return ({ rewards }) => (Math.max(...rewards) - Math.min(...rewards) <= tolerance ? "zero-signal" : null);
}

/** Drops groups whose mean reward is outside `[min, max]`: too hard, or too easy. */
export function keepRewardRange({ min, max }: { readonly min: number; readonly max: number }): GroupFilter {
  if (!(min <= max)) throw new RangeError(`Cannot filter groups: the range is ${min} to ${max}, min <= max is needed.`);
  return ({ rewards }) => {
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    return mean >= min && mean <= max ? null : "reward-range";
  };
}
