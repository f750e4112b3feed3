// Measures how good weights are: runs each held-out task once before and once after training,
// sampled and greedily. Gives pass rates with their intervals, by kind and by case, and the gain,
// whose interval is computed from the per-task differences.

import type { Taskset } from "../core/index.ts";
import { differenceInterval, type Interval, rateInterval, signFlipTest } from "../statistics/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { type RunEpisode, runGroups } from "../rollout/index.ts";

/** Properties of a task that the environment gives in `info`, used for tables and for balancing. */
export type TaskTraits = {
  /** Kind of the task; "all" if the environment names none. */
  readonly kind: string;
  /**
   * The situation within the kind; if a task has several, their number, such as "2 goals". `null`
   * if the environment names none.
   */
  readonly case: string | null;
  /** Difficulty; 1 is the plainest. `null` if the environment names none. */
  readonly level: number | null;
};

/** One task of an evaluation. */
export type TaskOutcome = TaskTraits & {
  readonly taskId: string;
  /** 1: passed. Failed and ungraded episodes did not pass. */
  readonly passed: 0 | 1;
  /** Number of violations; `null` if the environment does not count them. */
  readonly ruleViolations: number | null;
};

export type EvaluationOptions = {
  readonly runEpisode: RunEpisode;
  readonly taskset: Taskset;
  readonly traitsOf: (taskset: Taskset, index: number) => TaskTraits;
  readonly seed: number;
  readonly signal: AbortSignal;
  readonly onEpisode?: (finished: number) => void;
};

/**
 * Maximum number of concurrent episodes: enough to fill every thread, few enough to hold in memory.
 */
const concurrency = 128;

/**
 * Runs each task once with the current weights. Seeds are the same every time, so two evaluations
 * of the same tasks differ only by their weights. Aligned with `indexes`; resolves with `null` when
 * the signal aborted it.
 */
export async function evaluatePolicy(
  indexes: readonly number[],
  { runEpisode, taskset, traitsOf, seed, signal, onEpisode }: EvaluationOptions,
): Promise<readonly TaskOutcome[] | null> {
  const plans = indexes.map((index, groupIndex) => {
    const task = taskset.task(index);
    return { groupId: `${task.id}@evaluation`, task, groupIndex };
  });
  let finished = 0;
  const groups = await runGroups(plans, {
    groupSize: 1,
    concurrency,
    signal,
    runEpisode: (task, request) =>
      runEpisode(task, { ...request, episodeId: request.groupId, seed: deriveSeed(seed, "evaluation", task.id) }),
    onEpisode: () => onEpisode?.(++finished),
  });
  if (signal.aborted) return null;
  return groups.map(({ plan, members }) => {
    const { reward = null, metrics = null } = members[0]?.ended.summary ?? {};
    return {
      taskId: plan.task.id,
      ...traitsOf(taskset, indexes[plan.groupIndex]!),
      passed: reward === 1 ? 1 : 0,
      ruleViolations: metrics?.["ruleViolations"] ?? null,
    };
  });
}

/** Share of tasks that passed. */
export function passRateOf(outcomes: readonly TaskOutcome[]): number {
  return outcomes.reduce((sum, { passed }) => sum + passed, 0) / Math.max(1, outcomes.length);
}

export type ComparedKind = {
  /** The tasks that the row covers: all of them, those of one kind, or those of one case. */
  readonly scope: "all" | "kind" | "case";
  /** Name of the kind or case; "all" for all of them together. */
  readonly kind: string;
  readonly tasks: number;
  readonly before: number;
  readonly beforeInterval: Interval | null;
  readonly after: number;
  readonly afterInterval: Interval | null;
  readonly gain: number;
  readonly gainInterval: Interval | null;
  /** Mean per episode; `null` if the environment does not count them. */
  readonly violationsBefore: number | null;
  readonly violationsAfter: number | null;
};

/**
 * All tasks first, then each kind, then each case. `before` and `after` cover the same tasks in the
 * same order.
 */
export function compare(before: readonly TaskOutcome[], after: readonly TaskOutcome[]): readonly ComparedKind[] {
  const pairs = before.map((first, place): OutcomePair => [first, after[place]!]);
  const rowsOf = (scope: "kind" | "case", fewest: number): readonly ComparedKind[] => {
    const names = [...new Set(before.flatMap((outcome) => outcome[scope] ?? []))].toSorted();
    if (names.length < fewest) return [];
    return names.map((name) => ({ scope, kind: name, ...difference(pairs.filter(([one]) => one[scope] === name)) }));
  };
  return [{ scope: "all", kind: "all", ...difference(pairs) }, ...rowsOf("kind", 2), ...rowsOf("case", 1)];
}

/**
 * The plainest cases (level 1) whose pass rate fell by more than chance explains: a sign-flip test
 * of the tasks that changed, at 5 % in that direction. Five tasks that passed before and fail now
 * are enough.
 */
export function fallenCases(before: readonly TaskOutcome[], after: readonly TaskOutcome[]): readonly ComparedKind[] {
  const places = [...before.keys()].filter((place) => before[place]!.level === 1 && after[place] !== undefined);
  const [plain, later] = [before, after].map((list) => places.map((place) => list[place]!)) as [
    TaskOutcome[],
    TaskOutcome[],
  ];
  return compare(plain, later).filter(({ scope, kind, gain }) => {
    const changes = plain.flatMap((one, place) => (one.case === kind ? later[place]!.passed - one.passed : []));
    return scope === "case" && gain < 0 && signFlipTest(changes).p < 0.1;
  });
}

/** The measurements that the verdict on a training is based on. */
export type JudgedTraining = {
  /** All held-out tasks, sampled as in training. */
  readonly sampled: ComparedKind;
  /** The same tasks at temperature 0; `null` if they were not run so. */
  readonly greedy: ComparedKind | null;
  readonly steps: number;
  /** False if no group of any step had episodes with different rewards. */
  readonly taught: boolean;
  readonly minutes: number;
};

/**
 * One sentence about a training: whether the pass rate on held-out tasks rose. It considers only
 * the greedy rate if there is one, which has less noise, so that two chances do not make a rise.
 */
export function trainingVerdict({ sampled, greedy, steps, taught, minutes }: JudgedTraining): string {
  const more = `give it more time, such as --minutes ${Math.max(2, Math.ceil(3 * minutes))}`;
  if (steps === 0) return `Not enough time to tell: no step was made in ${minutes} minutes; ${more}.`;
  const made = `${steps} step${steps === 1 ? "" : "s"}`;
  if (!taught) {
    return (
      `Nothing could be learnt in ${made}: all episodes of each group earned the same reward; ` +
      "train on tasks that sometimes succeed, or clone an expert first (--from-expert)."
    );
  }
  const { before, after, gain, gainInterval, tasks } = greedy ?? sampled;
  const percent = (share: number): string => (share * 100).toFixed(1);
  const signed = (share: number): string => `${share < 0 ? "-" : "+"}${percent(Math.abs(share))}`;
  const rate = greedy === null ? "pass rate at temperature 1" : "greedy pass rate";
  const interval =
    gainInterval === null ? "" : `, 95 % interval ${signed(gainInterval.low)} to ${signed(gainInterval.high)}`;
  const change = `from ${percent(before)} to ${percent(after)} % of ${tasks} held-out tasks`;
  if (gainInterval !== null && gainInterval.low > 0)
    return `It learnt: the ${rate} rose by ${percent(gain)} points in ${made}, ${change}${interval}.`;
  if (gainInterval !== null && gainInterval.high < 0)
    return `It got worse: the ${rate} fell by ${percent(-gain)} points in ${made}, ${change}${interval}.`;
  return `Not enough to tell: in ${made} the ${rate} went ${change}${interval}; ${more}.`;
}

type OutcomePair = readonly [before: TaskOutcome, after: TaskOutcome];

function difference(pairs: readonly OutcomePair[]): Omit<ComparedKind, "scope" | "kind"> {
  const [before, after] = [0, 1].map((side) => pairs.map((pair) => pair[side]!.passed)) as [number[], number[]];
  const [violationsBefore, violationsAfter] = [0, 1].map((side) => {
    const counts = pairs.flatMap((pair) => pair[side]!.ruleViolations ?? []);
    return counts.length === 0 ? null : mean(counts);
  }) as [number | null, number | null];
  const gains = after.map((passed, place) => passed - before[place]!);
  return {
    tasks: pairs.length,
    before: mean(before),
    beforeInterval: rateInterval(before),
    after: mean(after),
    afterInterval: rateInterval(after),
    gain: mean(gains),
    gainInterval: differenceInterval(gains),
    violationsBefore,
    violationsAfter,
  };
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}
