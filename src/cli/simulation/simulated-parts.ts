// A trainer and its servers without a GPU: the expert and the agenda user of the bookshop, as slow
// as models on servers, with durations from log-normal distributions; and a trainer that only waits
// for the time in which a real one computes.

import type { Engine, Tokenizer, UserSource } from "../../core/index.ts";
import { createExpertEngine } from "../../environments/bookshop/index.ts";
import { type Clock, sleepWith, systemClock } from "../../lib/clock.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import type { ProducedGroup, RolloutProducer } from "../../rollout/index.ts";

/** `factor`: number of simulated seconds in a real one. */
export function fasterClock(factor: number, clock: Clock = systemClock): Clock {
  const after: Clock["after"] = (ms, action) => clock.after(ms / factor, action);
  return { now: () => clock.now() * factor, after, sleep: sleepWith(after) };
}

/** Durations with a log-normal distribution. */
export type Duration = {
  readonly medianMs: number;
  /** Standard deviation of the logarithm: 0 always gives the median, 1 has a long tail. */
  readonly sigma: number;
};

export type SimulatedEngineOptions = {
  readonly tokenizer: Tokenizer;
  readonly noise: number;
  readonly turn: Duration;
  readonly clock: Clock;
};

/** An engine whose weights have the version that was last set. */
export interface SimulatedEngine extends Engine {
  version: string;
}

export function createSimulatedEngine({ tokenizer, noise, turn, clock }: SimulatedEngineOptions): SimulatedEngine {
  const expert = createExpertEngine({ tokenizer, noise });
  return {
    name: "simulated",
    version: "0",
    async sample(request, options = {}) {
      const dispatch = this.version;
      await clock.sleep(draw(turn, deriveSeed(0, "engine", request.requestId)), options.signal);
      const result = await expert.sample(request);
      return {
        ...result,
        weightSpans: result.weightSpans.map((span) => ({ ...span, dispatch, reply: this.version })),
      };
    },
    close: () => expert.close(),
  };
}

/** The same user, slower. */
export function slowUser(source: UserSource, line: Duration, clock: Clock): UserSource {
  return {
    name: source.name,
    create(task, options) {
      const user = source.create(task, options);
      let lines = 0;
      const wait = (signal?: AbortSignal): Promise<void> =>
        clock.sleep(draw(line, deriveSeed(options.seed, "line", lines++)), signal);
      return {
        async open(call) {
          await wait(call?.signal);
          return user.open(call);
        },
        async reply(utterance, call) {
          await wait(call?.signal);
          return user.reply(utterance, call);
        },
      };
    },
  };
}

function draw({ medianMs, sigma }: Duration, seed: number): number {
  const random = createRandom(seed);
  const [u, v] = [1 - random.next(), random.next()];
  return medianMs * Math.exp(sigma * Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v));
}

type TrainerOptions = {
  readonly steps: number;
  readonly batchGroups: number;
  readonly stepMs: number;
  /** Time that the engine takes to load new weights; nothing is sampled meanwhile. */
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
  /** Staleness of its groups, one value per group. */
  readonly staleness: readonly number[];
  /** Number of running episodes when the batch was handed over. */
  readonly runningEpisodes: number;
};

/** Ends early, without a fault, when the signal aborts. */
export async function simulateTrainer(producer: RolloutProducer, options: TrainerOptions): Promise<TrainerStep[]> {
  const { steps, batchGroups, stepMs, updateMs, clock, setVersion, signal } = options;
  const done: TrainerStep[] = [];
  try {
    for (let step = 1; step <= steps; step++) {
      const since = clock.now();
      const groups = await producer.take(batchGroups, { signal });
      const waitedMs = clock.now() - since;
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
