// Agreement of two raters who labelled the same episodes: the share of equal labels, and Cohen's
// kappa, which is 0 for raters who agree as often as chance makes them. Every task counts once,
// however many of its episodes were labelled, because episodes of one task are correlated.

import { type Interval, type IntervalOptions, rateInterval } from "./rates.ts";

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
