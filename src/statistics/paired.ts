// Statistics of differences, one a task, between two runs of the same tasks: an interval of their mean and a test of whether it
// is zero. Seeded: the same numbers give the same result everywhere.

import { createRandom, deriveSeed } from "../lib/random.ts";
import type { Interval } from "./rates.ts";

export type PairedOptions = {
  /** Of resampling. Default: 0. */
  readonly seed?: number;
};

/** Quantiles of so many means move by less than a tenth of the interval's width from seed to seed. */
const resamples = 4000;

/**
 * The 95 % interval of the mean difference by a bootstrap over tasks. Two tasks more are resampled, which differ by all of
 * `range` in either direction (as Bonett and Price do it in a formula): without them the interval of a few tasks is far too
 * narrow, and has no width at all where every task agrees. `null` with fewer than two tasks.
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

/** Whether a mean difference may be chance. */
export type SignFlipTest = {
  /** Two-sided: the share of all assignments of signs whose sum is at least as far from zero. 1 where no task differs. */
  readonly p: number;
  /** False: so many different sizes of differences are more than can be enumerated, and `p` is from random signs. */
  readonly isExact: boolean;
};

/** Of the table of sums; with differences of successes over equal trials, thousands of tasks stay below it. */
const mostSteps = 400_000_000;
/** 2^19 assignments (the first sign is fixed) are 0.01 s. */
const mostEnumerated = 20;
const randomSigns = 20_000;
/** The smallest p that is stated: below it a double's rounding counts. */
const smallest = 1e-15;

/**
 * The sign-flip (paired permutation) test: if neither run is better, each task's difference could as well have the other sign.
 * Exact where the differences are multiples of one number (rates of equal trials), and for few tasks; otherwise by random signs.
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

/** The largest 1/q of which all are multiples, for q up to 5,040 (all rates of up to 10 trials); `null`: there is none. */
function commonUnit(sizes: readonly number[]): number | null {
  for (let q = 1; q <= 5040; q++) {
    if (sizes.every((size) => Math.abs(size * q - Math.round(size * q)) < 1e-7)) return 1 / q;
  }
  return null;
}

/** From the whole distribution of the sum of multiples with random signs. */
function pOfSums(multiples: readonly number[], observed: number): number {
  const most = multiples.reduce((sum, multiple) => sum + multiple, 0);
  // Chance of each sum of the chosen multiples; the sum with signs is twice that, less all of them.
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

/** All assignments, each from the one before by one sign (a Gray code). By symmetry the first sign is fixed. */
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
  // The signs that were observed are one of the assignments.
  return bounded((extreme + 1) / (randomSigns + 1));
}

function bounded(p: number): number {
  return Math.min(1, Math.max(smallest, p));
}
