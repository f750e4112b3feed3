// How good the weights of the moment are: each task once, sampled as in training. The seeds are the same every time, so two
// evaluations of the same tasks differ by their weights and by nothing else.

import type { Taskset } from "../../core/index.ts";
import { deriveSeed } from "../../lib/random.ts";
import type { RunEpisode } from "../../rollout/index.ts";

/** One task of an evaluation. */
export type TaskOutcome = {
  readonly taskId: string;
  readonly kind: string;
  /** 1: passed. Failed and ungraded episodes did not pass. */
  readonly passed: 0 | 1;
  /** `null`: the environment counts none. */
  readonly ruleViolations: number | null;
};

export type EvaluationParts = {
  readonly play: RunEpisode;
  readonly taskset: Taskset;
  readonly kindOf: (taskset: Taskset, index: number) => string;
  readonly seed: number;
};

/** Most episodes at once: enough to fill every thread, few enough to hold in memory. */
const concurrency = 128;

/** Aligned with `indexes`. Resolves with `null` when the signal aborted it. */
export async function evaluatePolicy(
  indexes: readonly number[],
  parts: EvaluationParts,
  options: { readonly signal: AbortSignal; readonly onEpisode?: (finished: number) => void },
): Promise<readonly TaskOutcome[] | null> {
  const { play, taskset, kindOf, seed } = parts;
  const outcomes: TaskOutcome[] = [];
  let next = 0;
  let finished = 0;
  const playOne = async (place: number): Promise<void> => {
    const task = taskset.task(indexes[place]!);
    const groupId = `${task.id}@evaluation`;
    const { episode } = await play(task, {
      episodeId: groupId,
      groupId,
      sampleIndex: 0,
      seed: deriveSeed(seed, "evaluation", task.id),
      signal: options.signal,
      onEvent: () => undefined,
    });
    outcomes[place] = {
      taskId: task.id,
      kind: kindOf(taskset, indexes[place]!),
      passed: episode.reward === 1 ? 1 : 0,
      ruleViolations: episode.grade?.metrics["ruleViolations"] ?? null,
    };
    options.onEpisode?.(++finished);
  };
  const work = async (): Promise<void> => {
    while (next < indexes.length && !options.signal.aborted) await playOne(next++);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, indexes.length) }, work));
  return options.signal.aborted ? null : outcomes;
}

/** Share of tasks that passed. */
export function passRateOf(outcomes: readonly TaskOutcome[]): number {
  return outcomes.reduce((sum, { passed }) => sum + passed, 0) / Math.max(1, outcomes.length);
}
