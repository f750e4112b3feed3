// Statistics of per-task differences between two runs of the same tasks: an interval of their mean,
// and a test of whether it is zero; and the agreement of two raters of the same episodes. Seeded: the
// same numbers yield the same result everywhere.

import { createRandom, deriveSeed } from "../lib/random.ts";
import { type Interval, type IntervalOptions, rateInterval } from "./rates.ts";

export type PairedOptions = {
  /** Seed of the resampling. Default: 0. */
  readonly seed?: number;
};

/**
 * Number of resamples: quantiles then vary by less than a tenth of the interval's width between
 * seeds.
 */
const resamples = 4000;

/**
 * The 95 % interval of the mean difference, by a bootstrap over tasks. Two artificial tasks are
 * added, which differ by the full `range` in either direction (a resampling version of Bonett and
 * Price's formula): without them the interval of a few tasks is far too narrow, and has zero width
 * if all tasks agree. `null` for fewer than two tasks.
 *
 * @param differences one per task
 */
export function bootstrapInterval(
  differences: readonly number[],
  { seed = 0, range = 1 }: PairedOptions & { readonly range?: number } = {},
): Interval | null {
  if (differences.length < 2) return null;
  const values = Float64Array.from([...differences, range, -range]);
  const random = createRandom(deriveSeed(seed, "bootstrap"));
  const means = new Float64Array(resamples);
  for (let at = 0; at < resamples; at++) {
    let sum = 0;
    for (let drawn = 0; drawn < values.length; drawn++) sum += values[random.integer(values.length)]!;
    means[at] = sum / values.length;
  }
  means.sort();
  const quantile = (share: number): number => means[Math.round(share * (resamples - 1))]!;
  return { low: Math.max(-range, quantile(0.025)), high: Math.min(range, quantile(0.975)) };
}

/** Test of whether a mean difference may be due to chance. */
export type SignFlipTest = {
  /**
   * Two-sided p-value: the share of all sign assignments whose sum is at least as far from zero. 1
   * if no task differs.
   */
  readonly p: number;
  /**
   * False if the differences have too many distinct sizes to enumerate, so that `p` is estimated
   * from random signs.
   */
  readonly isExact: boolean;
};

/**
 * Maximum number of steps for the table of sums; for differences of successes over equal trials,
 * thousands of tasks are below it.
 */
const mostSteps = 400_000_000;
/** Maximum number of tasks to enumerate: 2^19 assignments (the first sign is fixed) take 0.01 s. */
const mostEnumerated = 20;
const randomSigns = 20_000;
/** The smallest reported p: below it, double rounding matters. */
const smallest = 1e-15;

/**
 * The sign-flip (paired permutation) test: if neither run is better, each task's difference could
 * equally have the other sign. Exact if the differences are multiples of one number (rates of equal
 * trials), and for few tasks; otherwise estimated from random signs.
 *
 * @param differences one per task
 */
export function signFlipTest(differences: readonly number[], { seed = 0 }: PairedOptions = {}): SignFlipTest {
  const sizes = differences.map(Math.abs).filter((size) => size > 1e-12);
  if (sizes.length === 0) return { p: 1, isExact: true };
  const observed = Math.abs(differences.reduce((sum, difference) => sum + difference, 0));
  const unit = commonUnit(sizes);
  if (unit !== null) {
    const multiples = sizes.map((size) => Math.round(size / unit));
    const most = multiples.reduce((sum, multiple) => sum + multiple, 0);
    if (most * sizes.length <= mostSteps) return { p: pOfSums(multiples, Math.round(observed / unit)), isExact: true };
  }
  const slack = 1e-9 * Math.max(...sizes);
  if (sizes.length <= mostEnumerated) return { p: pOfAll(sizes, observed - slack), isExact: true };
  return { p: pOfRandom(sizes, observed - slack, seed), isExact: false };
}

/**
 * The largest 1/q that divides all sizes, for q up to 5,040 (all rates of up to 10 trials); `null`
 * if there is none.
 */
function commonUnit(sizes: readonly number[]): number | null {
  for (let q = 1; q <= 5040; q++) {
    if (sizes.every((size) => Math.abs(size * q - Math.round(size * q)) < 1e-7)) return 1 / q;
  }
  return null;
}

/** Computes p from the whole distribution of the sum of multiples with random signs. */
function pOfSums(multiples: readonly number[], observed: number): number {
  const most = multiples.reduce((sum, multiple) => sum + multiple, 0);
  // Probability of each sum of the chosen multiples; the signed sum is twice that, minus the sum of
  // all.
  const chances = new Float64Array(most + 1);
  chances[0] = 1;
  let reached = 0;
  for (const multiple of multiples) {
    reached += multiple;
    for (let sum = reached; sum >= 0; sum--) {
      chances[sum] = (chances[sum]! + (sum >= multiple ? chances[sum - multiple]! : 0)) / 2;
    }
  }
  let p = 0;
  for (let sum = 0; sum <= most; sum++) if (Math.abs(2 * sum - most) >= observed) p += chances[sum]!;
  return bounded(p);
}

/**
 * Enumerates all assignments, each different from the previous one by one sign (a Gray code). By
 * symmetry the first sign is fixed.
 */
function pOfAll(sizes: readonly number[], atLeast: number): number {
  const signs = sizes.map(() => 1);
  let sum = sizes.reduce((all, size) => all + size, 0);
  const count = 2 ** (sizes.length - 1);
  let extreme = Math.abs(sum) >= atLeast ? 1 : 0;
  for (let step = 1; step < count; step++) {
    const at = 32 - Math.clz32(step & -step);
    const sign = -signs[at]!;
    signs[at] = sign;
    sum += 2 * sign * sizes[at]!;
    if (Math.abs(sum) >= atLeast) extreme++;
  }
  return bounded(extreme / count);
}

function pOfRandom(sizes: readonly number[], atLeast: number, seed: number): number {
  const random = createRandom(deriveSeed(seed, "signs"));
  let extreme = 0;
  for (let drawn = 0; drawn < randomSigns; drawn++) {
    let sum = 0;
    for (const size of sizes) sum += random.next() < 0.5 ? size : -size;
    if (Math.abs(sum) >= atLeast) extreme++;
  }
  // The observed signs count as one of the assignments.
  return bounded((extreme + 1) / (randomSigns + 1));
}

function bounded(p: number): number {
  return Math.min(1, Math.max(smallest, p));
}

// Agreement of two raters who labelled the same episodes: the share of equal labels, and Cohen's
// kappa, which is 0 for raters who agree as often as chance makes them. Every task counts once,
// however many of its episodes were labelled, because episodes of one task are correlated.

/** The labels that two raters gave one episode. */
export type Rating = { readonly taskId: string; readonly first: string; readonly second: string };

export type RatingAgreement = {
  readonly episodes: number;
  readonly tasks: number;
  /** Number of episodes with equal labels. */
  readonly agreed: number;
  /** Mean over tasks of the share of equal labels; `interval` is its confidence interval. */
  readonly share: number;
  /** `null` for fewer than two tasks. */
  readonly interval: Interval | null;
  /** Cohen's kappa; `null` if both raters gave every episode the same single label. */
  readonly kappa: number | null;
  /** Interval of the share, with the agreement by chance held fixed. `null` where one of both is unknown. */
  readonly kappaInterval: Interval | null;
};

/** Agreement of two raters; `null` without ratings. */
export function ratingAgreement(ratings: readonly Rating[], options: IntervalOptions = {}): RatingAgreement | null {
  if (ratings.length === 0) return null;
  const tasks = new Map<string, { episodes: number; agreed: number }>();
  for (const { taskId, first, second } of ratings) {
    const task = tasks.get(taskId) ?? { episodes: 0, agreed: 0 };
    tasks.set(taskId, task);
    task.episodes++;
    if (first === second) task.agreed++;
  }
  // Shares of each label by each rater.
  const firsts = new Map<string, number>();
  const seconds = new Map<string, number>();
  for (const { taskId, first, second } of ratings) {
    const weight = 1 / (tasks.size * tasks.get(taskId)!.episodes);
    firsts.set(first, (firsts.get(first) ?? 0) + weight);
    seconds.set(second, (seconds.get(second) ?? 0) + weight);
  }
  const shares = [...tasks.values()].map(({ episodes, agreed }) => agreed / episodes);
  const share = shares.reduce((sum, one) => sum + one, 0) / shares.length;
  const interval = rateInterval(shares, options);
  const chance = [...firsts].reduce((sum, [label, part]) => sum + part * (seconds.get(label) ?? 0), 0);
  const isKnown = new Set([...firsts.keys(), ...seconds.keys()]).size > 1;
  const kappaOf = (rate: number): number => Math.max(-1, (rate - chance) / (1 - chance));
  return {
    episodes: ratings.length,
    tasks: tasks.size,
    agreed: ratings.filter(({ first, second }) => first === second).length,
    share,
    interval,
    kappa: isKnown ? kappaOf(share) : null,
    kappaInterval: isKnown && interval !== null ? { low: kappaOf(interval.low), high: kappaOf(interval.high) } : null,
  };
}
