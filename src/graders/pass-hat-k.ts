// How often a task is solved in k tries: always (pass^k, reliability) or at least once (pass@k). Estimated without bias from
// n >= k trials of each task. Pure numbers; where the trials come from is the caller's.

/** The trials of one task that have a reward. */
export type TaskTally = {
  readonly taskId: string;
  readonly trials: number;
  readonly successes: number;
};

/** A reward of 1, within 1e-6: what τ-bench counts as solved. */
export function isSuccess(reward: number): boolean {
  return Math.abs(reward - 1) <= 1e-6;
}

/**
 * pass^k: the mean over tasks of C(c, k) / C(n, k), the chance that k of a task's n trials, drawn without replacement, are
 * all successes. `null` when any task has fewer than k trials: leaving such tasks out would compare other tasks.
 */
export function passHatK(tallies: readonly TaskTally[], k: number): number | null {
  return meanOver(tallies, k, ({ trials, successes }) => ratioOfDraws(successes, trials, k));
}

/** pass@k: the mean over tasks of 1 - C(n - c, k) / C(n, k), the chance that at least one of k trials is a success. `null` as for {@link passHatK}. */
export function passAtK(tallies: readonly TaskTally[], k: number): number | null {
  return meanOver(tallies, k, ({ trials, successes }) => 1 - ratioOfDraws(trials - successes, trials, k));
}

/** The number of trials that every task has: the largest k for which pass^k is known; 0 without tasks. */
export function commonTrials(tallies: readonly TaskTally[]): number {
  return tallies.length === 0 ? 0 : tallies.reduce((least, { trials }) => Math.min(least, trials), Infinity);
}

function meanOver(tallies: readonly TaskTally[], k: number, chance: (tally: TaskTally) => number): number | null {
  if (!Number.isInteger(k) || k < 1) {
    throw new RangeError(`Cannot compute pass^k: k is ${k}, a whole number of at least 1 is needed.`);
  }
  if (commonTrials(tallies) < k) return null;
  return tallies.reduce((sum, tally) => sum + chance(tally), 0) / tallies.length;
}

/** C(some, k) / C(all, k) as a product, which never overflows. */
function ratioOfDraws(some: number, all: number, k: number): number {
  let ratio = 1;
  for (let drawn = 0; drawn < k; drawn++) ratio *= Math.max(0, some - drawn) / (all - drawn);
  return ratio;
}
