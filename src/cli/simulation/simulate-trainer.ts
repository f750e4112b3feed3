// A trainer that trains nothing: takes batches of groups, is busy for as long as a step takes, sets new weights, and notes
// how long it waited and how old its tokens were. The rollout side is the real one.

import type { Clock } from "../../lib/clock.ts";
import type { ProducedGroup, RolloutProducer } from "../../rollout/index.ts";

export type TrainerOptions = {
  readonly steps: number;
  readonly batchGroups: number;
  readonly stepMs: number;
  /** How long the engine takes new weights; nothing is sampled meanwhile. */
  readonly updateMs: number;
  readonly clock: Clock;
  /** Gives the engine its new weights. */
  readonly setVersion: (version: string) => void;
  readonly onStep?: (step: TrainerStep) => void;
  readonly signal: AbortSignal;
};

export type TrainerStep = {
  readonly step: number;
  readonly waitedMs: number;
  readonly groups: number;
  readonly episodes: number;
  readonly trainedTokens: number;
  /** Of its groups. */
  readonly staleness: readonly number[];
  /** At the moment the batch was handed over. */
  readonly runningEpisodes: number;
};

/** Ends early, without a fault, when the signal aborts. */
export async function simulateTrainer(producer: RolloutProducer, options: TrainerOptions): Promise<TrainerStep[]> {
  const { steps, batchGroups, stepMs, updateMs, clock, setVersion, signal } = options;
  const done: TrainerStep[] = [];
  try {
    for (let step = 1; step <= steps; step++) {
      const asked = clock.now();
      const groups = await producer.take(batchGroups, { signal });
      const waitedMs = clock.now() - asked;
      if (groups.length === 0) break;
      done.push(describe(groups, { step, waitedMs, runningEpisodes: producer.status.runningEpisodes }));
      options.onStep?.(done.at(-1)!);
      await clock.sleep(stepMs, signal);
      if (step === steps) break;
      producer.pause();
      await clock.sleep(updateMs, signal);
      setVersion(String(step));
      producer.reportWeightVersion(String(step));
      producer.continue();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return done;
}

function describe(
  groups: readonly ProducedGroup[],
  measured: Pick<TrainerStep, "step" | "waitedMs" | "runningEpisodes">,
): TrainerStep {
  const episodes = groups.flatMap((group) => group.episodes);
  const samples = episodes.flatMap(({ result }) => result.samples);
  return {
    ...measured,
    groups: groups.length,
    episodes: episodes.length,
    trainedTokens: samples.reduce((sum, { lossMask }) => sum + lossMask.reduce((ones, one) => ones + one, 0), 0),
    staleness: groups.map(({ staleness }) => staleness),
  };
}
