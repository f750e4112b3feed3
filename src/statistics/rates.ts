// Statistics over trials and tasks: the probability that a task is solved in all of k trials
// (pass^k, reliability) or in at least one (pass@k), estimated without bias from n >= k trials of
// each task; and confidence intervals of rates over tasks. Trials of the same task are correlated,
// so the tasks are the sampling units. A percentile bootstrap is not used: with 8 tasks and a rate
// of 0.9 it covers the truth in 55 % of cases, and if every task passed it has zero width.

/** The trials of one task that have a reward. */
export type TaskTally = {
  readonly taskId: string;
  readonly trials: number;
  readonly successes: number;
};

/** True for a reward of 1, within 1e-6: τ-bench's criterion for a solved task. */
export function isSuccess(reward: number): boolean {
  return Math.abs(reward - 1) <= 1e-6;
}

/**
 * pass^k: the mean over tasks of C(c, k) / C(n, k), the probability that k of a task's n trials,
 * drawn without replacement, are all successes. `null` if any task has fewer than k trials:
 * omitting such tasks would change the set of tasks.
 */
export function passHatK(tallies: readonly TaskTally[], k: number): number | null {
  return meanOver(tallies, k, ({ trials, successes }) => ratioOfDraws(successes, trials, k));
}

/**
 * pass@k: the mean over tasks of 1 - C(n - c, k) / C(n, k), the probability that at least one of k
 * trials is a success. `null` under the same condition as {@link passHatK}.
 */
export function passAtK(tallies: readonly TaskTally[], k: number): number | null {
  return meanOver(tallies, k, ({ trials, successes }) => 1 - ratioOfDraws(trials - successes, trials, k));
}

export type PassRate = {
  readonly k: number;
  /** pass^k; `null` if some task has fewer than k graded trials. */
  readonly passHatK: number | null;
  readonly passAtK: number | null;
  /** Confidence interval of pass^k, over tasks. */
  readonly interval: Interval | null;
};

/** Rates for each k. @default 1 to the number of trials that every task has */
export function passRates(
  tallies: readonly TaskTally[],
  ks: readonly number[] = Array.from({ length: Math.max(1, commonTrials(tallies)) }, (_, at) => at + 1),
): readonly PassRate[] {
  return ks.map((k) => {
    const value = passHatK(tallies, k);
    const each = value === null ? [] : tallies.map((tally) => passHatK([tally], k) ?? 0);
    return { k, passHatK: value, passAtK: passAtK(tallies, k), interval: rateInterval(each) };
  });
}

/**
 * The number of trials that every task has at least: the largest k for which pass^k is known; 0
 * without tasks.
 */
export function commonTrials(tallies: readonly TaskTally[]): number {
  return tallies.length === 0 ? 0 : tallies.reduce((least, { trials }) => Math.min(least, trials), Infinity);
}

function meanOver(tallies: readonly TaskTally[], k: number, chance: (tally: TaskTally) => number): number | null {
  if (!Number.isInteger(k) || k < 1) {
    throw new RangeError(`Cannot compute pass^k: k is ${k}, expected a whole number of at least 1.`);
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

export type Interval = { readonly low: number; readonly high: number };

export type IntervalOptions = {
  /** Confidence level between 0 and 1. Default: 0.95. */
  readonly level?: number;
};

/**
 * Minimum number of tasks that passed, and of tasks that failed: with fewer, the mean of the tasks
 * is not yet approximately normal.
 */
const fewTasks = 10;

/**
 * The interval of a rate from one value between 0 and 1 per task: a success, a share of successes,
 * or an estimate such as pass^k.
 *
 * Exact (Clopper and Pearson), with tasks as trials, if they are few or agree: for shares of
 * several trials this is wider than necessary, because a share varies less than a success.
 * Otherwise Student's interval, from the spread of the tasks. `null` for fewer than two tasks,
 * because their spread is unknown.
 *
 * @param values one per task
 */
export function rateInterval(values: readonly number[], { level = 0.95 }: IntervalOptions = {}): Interval | null {
  checkLevel(level);
  const tasks = values.length;
  if (values.some((value) => !(value >= 0 && value <= 1))) {
    throw new RangeError("Cannot compute the interval of a rate: a value is not between 0 and 1; use meanInterval().");
  }
  if (tasks < 2) return null;
  const passed = values.reduce((sum, value) => sum + value, 0);
  if (Math.min(passed, tasks - passed) >= fewTasks && values.some((value) => value !== 0 && value !== 1)) {
    const { low, high } = studentInterval(values, level);
    return { low: Math.max(0, low), high: Math.min(1, high) };
  }
  const tail = (1 - level) / 2;
  return {
    low: passed === 0 ? 0 : betaQuantile(tail, passed, tasks - passed + 1),
    high: passed === tasks ? 1 : betaQuantile(1 - tail, passed + 1, tasks - passed),
  };
}

/**
 * The interval of a mean of differences between -1 and 1, one per task, for two evaluations of the
 * same tasks (Bonett and Price 2012: one extra task at either extreme). `null` for fewer than two
 * tasks.
 */
export function differenceInterval(
  differences: readonly number[],
  { level = 0.95 }: IntervalOptions = {},
): Interval | null {
  checkLevel(level);
  if (differences.length < 2) return null;
  const values = [...differences, 1, -1];
  const mean = meanOf(values);
  const population = meanOf(values.map((value) => (value - mean) ** 2));
  const half = normalQuantile((1 + level) / 2) * Math.sqrt(population / values.length);
  return { low: Math.max(-1, mean - half), high: Math.min(1, mean + half) };
}

/**
 * The interval of a mean of one number per task, of any size: Student's interval, or that of a rate
 * if all are between 0 and 1. `null` for fewer than two tasks, and if all are equal and outside 0
 * to 1, because their spread is then unknown.
 *
 * @param values one per task
 */
export function meanInterval(values: readonly number[], options: IntervalOptions = {}): Interval | null {
  const { level = 0.95 } = options;
  if (values.every((value) => value >= 0 && value <= 1)) return rateInterval(values, options);
  checkLevel(level);
  if (values.length < 2 || values.every((value) => value === values[0])) return null;
  return studentInterval(values, level);
}

function studentInterval(values: readonly number[], level: number): Interval {
  const mean = meanOf(values);
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (values.length - 1);
  const half = studentQuantile((1 + level) / 2, values.length - 1) * Math.sqrt(variance / values.length);
  return { low: mean - half, high: mean + half };
}

function checkLevel(level: number): void {
  if (level > 0 && level < 1) return;
  throw new RangeError(`Cannot compute an interval: level is ${level}, expected a number between 0 and 1.`);
}

function meanOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function normalQuantile(share: number): number {
  return studentQuantile(share, 1e7);
}

/** Quantile of Student's distribution, for shares above one half. */
function studentQuantile(share: number, degrees: number): number {
  const x = betaQuantile(2 * (1 - share), degrees / 2, 0.5);
  return Math.sqrt((degrees * (1 - x)) / x);
}

/**
 * Quantile by bisection: the incomplete beta function is increasing, and 60 halvings exhaust the
 * precision of a double.
 */
function betaQuantile(share: number, a: number, b: number): number {
  let low = 0;
  let high = 1;
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (incompleteBeta(middle, a, b) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

/** The regularized incomplete beta function by its continued fraction (Abramowitz and Stegun 26.5.8, after Lentz). */
function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x)) / a;
  const tiny = 1e-300;
  const awayFromZero = (value: number): number => (Math.abs(value) < tiny ? tiny : value);
  let c = 1;
  let d = 1 / awayFromZero(1 - ((a + b) * x) / (a + 1));
  let fraction = d;
  for (let m = 1; m < 10_000; m++) {
    const before = fraction;
    for (const numerator of [
      (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m)),
      (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1)),
    ]) {
      d = 1 / awayFromZero(1 + numerator * d);
      c = awayFromZero(1 + numerator / c);
      fraction *= c * d;
    }
    if (Math.abs(fraction - before) < 1e-14 * Math.abs(fraction)) break;
  }
  return front * fraction;
}

/** Stirling's series above 10, and the recurrence below: error below 1e-12. */
function logGamma(z: number): number {
  let shift = 0;
  let x = z;
  for (; x < 10; x++) shift += Math.log(x);
  const series = 1 / (12 * x) - 1 / (360 * x ** 3) + 1 / (1260 * x ** 5) - 1 / (1680 * x ** 7);
  return (x - 0.5) * Math.log(x) - x + 0.5 * Math.log(2 * Math.PI) + series - shift;
}

/**
 * Differences that rounding explains: measured means are about 1e-6, and 1e-5 is the largest ever
 * observed.
 */
export const agreementLimits = Object.freeze({ mean: 1e-4, largest: 2e-3 });
