// Confidence intervals by resampling tasks: the trials of one task resemble each other, so tasks are what is drawn. Seeded,
// so that the same results always have the same interval.

import { createRandom } from "../lib/random.ts";

export type Interval = { readonly low: number; readonly high: number };

export type BootstrapOptions = {
  /** Default: 0. */
  readonly seed?: number;
  /** Default: 2,000, which puts the ends of an interval within about a tenth of its width. */
  readonly resamples?: number;
  /** Share of resamples inside. Default: 0.95. */
  readonly level?: number;
};

/** The percentile interval of the mean of one value a task. `null` with fewer than two tasks: nothing is known of their spread. */
export function bootstrapMean(values: readonly number[], options: BootstrapOptions = {}): Interval | null {
  const { seed = 0, resamples = 2_000, level = 0.95 } = options;
  if (!Number.isInteger(resamples) || resamples < 1) {
    throw new RangeError(`Cannot resample: resamples is ${resamples}, a whole number of at least 1 is needed.`);
  }
  if (!(level > 0 && level < 1)) {
    throw new RangeError(`Cannot give an interval: level is ${level}, a number between 0 and 1 is needed.`);
  }
  if (values.length < 2) return null;
  const random = createRandom(seed);
  const means = Float64Array.from({ length: resamples }, () => {
    let sum = 0;
    for (let drawn = 0; drawn < values.length; drawn++) sum += values[random.integer(values.length)]!;
    return sum / values.length;
  }).sort();
  const at = (share: number): number => means[Math.min(resamples - 1, Math.floor(share * resamples))]!;
  return { low: at((1 - level) / 2), high: at((1 + level) / 2) };
}
