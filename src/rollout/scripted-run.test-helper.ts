// Episodes whose outcome, reward, turns and durations are functions of their place in the run: runs
// without engines, in simulated time. Not a mock of the loop: trajectories and samples are real.

import type { Episode, EpisodeEvent, Task, Taskset } from "../core/index.ts";
import { createManualClock } from "../lib/clock.test-helper.ts";
import { createMemoryRunStore } from "../store/index.ts";
import { toSamples, TrajectoryRecorder } from "../trajectories/index.ts";
import type { EpisodeRequest, RunEpisode, RolloutParts, RolloutPlan } from "./index.ts";

export const task = (index: number): Task => ({
  id: `desk:train:${index}`,
  environment: "desk",
  split: "train",
  index,
  contentHash: "",
  instruction: null,
  agenda: null,
});

export const taskset: Taskset = { environment: "desk", split: "train", size: 100, task };

export const plan = (tasks: number, groupSize: number): RolloutPlan => ({
  taskset,
  taskIndexes: Array.from({ length: tasks }, (_, index) => index),
  groupSize,
  seed: 3,
});

export type Behaviour = {
  readonly outcome: Episode["outcome"];
  readonly reward: number | null;
  /** Duration of all turns together. */
  readonly ms: number;
  /** Number of turns, of two sampled tokens each. Default: 1. */
  readonly turns?: number;
  /** Logprobs of the two tokens. Default: -1 and -2. */
  readonly logprobs?: readonly [number, number];
};

export const passing = (): Behaviour => ({ outcome: "completed", reward: 1, ms: 10 });

/** A runner of scripted episodes; `version` is the engine's current weight version. */
export function runnerOf(
  behave: (task: Task, sampleIndex: number, place: EpisodeRequest) => Behaviour,
  clock = createManualClock(),
  version: () => string | null = () => null,
) {
  const log = { running: 0, mostRunning: 0, started: [] as string[] };
  const runEpisode: RunEpisode = async (one, place) => {
    const { episodeId: id, groupId, sampleIndex, seed } = place;
    log.started.push(id);
    log.mostRunning = Math.max(log.mostRunning, ++log.running);
    const { outcome, reward, ms, turns = 1, logprobs = [-1, -2] } = behave(one, sampleIndex, place);
    const recorder = new TrajectoryRecorder();
    const events: EpisodeEvent[] = [];
    const failure = { boundary: "engine", code: "timeout", message: "late", retryable: true, cause: null } as const;
    let isCancelled = false;
    for (const event of place.resumeFrom ?? []) {
      if (event.type !== "turn") continue;
      recorder.extend([1, 2]);
      events.push({ ...event, turn: recorder.act(event.turn) });
    }
    for (let index = events.length; index < turns && !isCancelled; index++) {
      recorder.extend([1, 2]);
      const dispatch = version();
      isCancelled = await clock.sleep(ms / turns, place.signal).then(
        () => false,
        () => true,
      );
      const turn = recorder.act({
        sampledTokens: Uint32Array.of(seed, 9),
        logprobs: Float32Array.from(logprobs),
        finish: { reason: "stop", matched: 9, raw: null },
        weightSpans: [{ tokenCount: 2, dispatch, reply: version() }],
      });
      const usage = { promptTokens: 2, completionTokens: 2, cachedTokens: null };
      const event: EpisodeEvent = { type: "turn", turn, attempts: [{ failure, waitedMs: 1 }], usage, durationMs: 0 };
      events.push(event);
      await place.onEvent(event);
    }
    const planned = outcome === "failed" ? "fault" : outcome === "aborted" ? "engine_abort" : "tool_ended";
    const stopReason = isCancelled ? "cancelled" : planned;
    log.running--;
    const graded = isCancelled ? null : reward;
    const episode: Episode = {
      id,
      groupId,
      sampleIndex,
      task: one,
      seed,
      outcome: isCancelled ? "aborted" : outcome,
      stopReason,
      failure: stopReason === "fault" ? failure : null,
      reward: graded,
      grade: null,
      info: new Map(),
      messages: [],
      trajectory: recorder.trajectory,
      historyPolicy: "append-only",
      events,
      problems: [],
    };
    const origin = { episodeId: id, groupId, taskId: one.id, reward: graded } as const;
    const result = toSamples(
      episode.trajectory,
      { ...origin, tokenAccounting: "token-exact", historyPolicy: "append-only" },
      { dropTurn: () => (graded === null ? "episode-aborted" : null) },
    );
    return { episode, result, origin: "new" };
  };
  return { runEpisode, log, clock };
}

export const rows: RolloutParts["exportSamples"] = ({ result }, { index, groupIndex }) =>
  result.samples.map((sample) => `${index} ${groupIndex} ${sample.id}`);

export async function openedStore() {
  const store = createMemoryRunStore();
  await store.begin(new Map());
  return store;
}

export async function list<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
