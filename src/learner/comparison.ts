// How good weights are: each held-out task once, before and after on the same tasks. Pass rates with their intervals, by kind,
// and the gain, whose interval comes from the differences task by task.

import type { Taskset } from "../core/index.ts";
import { differenceInterval, type Interval, rateInterval } from "../graders/index.ts";
import { deriveSeed } from "../lib/random.ts";
import { type RunEpisode, runGroups } from "../rollout/index.ts";

/** One task of an evaluation. */
export type TaskOutcome = {
  readonly taskId: string;
  readonly kind: string;
  /** 1: passed. Failed and ungraded episodes did not pass. */
  readonly passed: 0 | 1;
  /** `null`: the environment counts none. */
  readonly ruleViolations: number | null;
};

export type EvaluationOptions = {
  readonly runEpisode: RunEpisode;
  readonly taskset: Taskset;
  readonly kindOf: (taskset: Taskset, index: number) => string;
  readonly seed: number;
  readonly signal: AbortSignal;
  readonly onEpisode?: (finished: number) => void;
};

/** Most episodes at once: enough to fill every thread, few enough to hold in memory. */
const concurrency = 128;

/**
 * Runs each task once with the current weights, sampled as in training. Seeds are the same every time, so two evaluations of the
 * same tasks differ by their weights alone. Aligned with `indexes`; resolves with `null` when the signal aborted it.
 */
export async function evaluatePolicy(
  indexes: readonly number[],
  { runEpisode, taskset, kindOf, seed, signal, onEpisode }: EvaluationOptions,
): Promise<readonly TaskOutcome[] | null> {
  const plans = indexes.map((index, groupIndex) => {
    const task = taskset.task(index);
    return { groupId: `${task.id}@evaluation`, task, groupIndex };
  });
  let finished = 0;
  const groups = await runGroups(plans, {
    ...{ groupSize: 1, concurrency, signal },
    runEpisode: (task, request) =>
      runEpisode(task, { ...request, episodeId: request.groupId, seed: deriveSeed(seed, "evaluation", task.id) }),
    onEpisode: () => onEpisode?.(++finished),
  });
  if (signal.aborted) return null;
  return groups.map(({ plan, members }) => {
    const { reward = null, grade = null } = members[0]?.finished.episode ?? {};
    return {
      taskId: plan.task.id,
      kind: kindOf(taskset, indexes[plan.groupIndex]!),
      passed: reward === 1 ? 1 : 0,
      ruleViolations: grade?.metrics["ruleViolations"] ?? null,
    };
  });
}

/** Share of tasks that passed. */
export function passRateOf(outcomes: readonly TaskOutcome[]): number {
  return outcomes.reduce((sum, { passed }) => sum + passed, 0) / Math.max(1, outcomes.length);
}

export type ComparedKind = {
  /** "all" for all of them together. */
  readonly kind: string;
  readonly tasks: number;
  readonly before: number;
  readonly beforeInterval: Interval | null;
  readonly after: number;
  readonly afterInterval: Interval | null;
  readonly gain: number;
  readonly gainInterval: Interval | null;
  /** An episode; `null`: the environment counts none. */
  readonly violationsBefore: number | null;
  readonly violationsAfter: number | null;
};

/** All tasks first, then each kind. `before` and `after` are of the same tasks in the same order. */
export function compare(before: readonly TaskOutcome[], after: readonly TaskOutcome[]): readonly ComparedKind[] {
  const kinds = [...new Set(before.map(({ kind }) => kind))];
  const all = before.map((first, place) => [first, after[place]!] as const);
  if (kinds.length < 2) return [compareSome("all", all)];
  return [
    compareSome("all", all),
    ...kinds.map((one) =>
      compareSome(
        one,
        all.filter(([{ kind }]) => kind === one),
      ),
    ),
  ];
}

function compareSome(kind: string, pairs: readonly (readonly [TaskOutcome, TaskOutcome])[]): ComparedKind {
  const [before, after] = [0, 1].map((side) => pairs.map((pair) => pair[side]!.passed)) as [number[], number[]];
  const [violationsBefore, violationsAfter] = [0, 1].map((side) => {
    const counts = pairs.flatMap((pair) => pair[side]!.ruleViolations ?? []);
    return counts.length === 0 ? null : mean(counts);
  }) as [number | null, number | null];
  const gains = after.map((passed, place) => passed - before[place]!);
  return {
    kind,
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
