import { describe, expect, it } from "vitest";
import { ConfigurationError, type Episode, type EpisodeEvent, type Task, type Taskset } from "../core/index.ts";
import { createManualClock } from "../lib/manual-clock.ts";
import { createMemoryRunStore } from "../store/index.ts";
import { toSamples, TrajectoryRecorder } from "../trajectories/index.ts";
import { type EpisodePlayer, rolloutWarnings, type RolloutPlan, runRollout, type RunTotals } from "./index.ts";

const task = (index: number): Task => ({
  id: `desk:train:${index}`,
  environment: "desk",
  split: "train",
  index,
  contentHash: "",
  instruction: null,
  agenda: null,
});
const taskset: Taskset = { environment: "desk", split: "train", size: 100, task };
const plan = (tasks: number, samplesPerTask: number): RolloutPlan => ({
  taskset,
  taskIndexes: Array.from({ length: tasks }, (_, index) => index),
  samplesPerTask,
  seed: 3,
});

type Behaviour = { readonly outcome: Episode["outcome"]; readonly reward: number | null; readonly ms: number };

/** Plays episodes of one turn; what happens in them is a function of the task and the seed alone. */
function playerOf(behave: (task: Task, sampleIndex: number) => Behaviour, clock = createManualClock()) {
  const log = { running: 0, mostRunning: 0, started: [] as string[] };
  const play: EpisodePlayer = async (one, place) => {
    const id = `${one.id}#${place.sampleIndex}`;
    log.started.push(id);
    log.mostRunning = Math.max(log.mostRunning, ++log.running);
    const { outcome, reward, ms } = behave(one, place.sampleIndex);
    const recorder = new TrajectoryRecorder();
    recorder.extend([1, 2]);
    const turn = recorder.act({
      sampledTokens: Uint32Array.of(place.seed, 9),
      logprobs: Float32Array.of(-1, -2),
      finish: { reason: "stop", matched: 9, raw: null },
      weightSpans: [{ tokenCount: 2, dispatch: null, reply: null }],
    });
    const usage = { promptTokens: 2, completionTokens: 2, cachedTokens: null };
    const failure = { boundary: "engine", code: "timeout", message: "late", retryable: true, cause: null } as const;
    const event: EpisodeEvent = { type: "turn", turn, attempts: [{ failure, waitedMs: 1 }], usage, durationMs: 0 };
    await place.onEvent(event);
    const cancelled = await clock.sleep(ms, place.signal).then(
      () => false,
      () => true,
    );
    const planned = outcome === "failed" ? "fault" : outcome === "aborted" ? "engine_abort" : "tool_ended";
    const stop = cancelled ? "cancelled" : planned;
    log.running--;
    const graded = cancelled ? null : reward;
    const episode: Episode = {
      id,
      groupId: place.groupId,
      sampleIndex: place.sampleIndex,
      task: one,
      seed: place.seed,
      outcome: cancelled ? "aborted" : outcome,
      stopReason: stop,
      failure: stop === "fault" ? failure : null,
      reward: graded,
      grade: null,
      info: new Map(),
      messages: [],
      trajectory: recorder.trajectory,
      historyPolicy: "append-only",
      events: [event],
      problems: [],
    };
    const origin = { episodeId: id, groupId: place.groupId, taskId: one.id, reward: graded } as const;
    const result = toSamples(
      episode.trajectory,
      { ...origin, tokenAccounting: "token-exact", historyPolicy: "append-only" },
      { dropTurn: () => (graded === null ? "episode-aborted" : null) },
    );
    return { episode, result, origin: "played" };
  };
  return { play, log, clock };
}

const passing = (): Behaviour => ({ outcome: "completed", reward: 1, ms: 10 });
const rows: Parameters<typeof runRollout>[1]["exportSamples"] = ({ result }, { index, groupIndex }) =>
  result.samples.map((sample) => `${index} ${groupIndex} ${sample.id}`);

async function openedStore() {
  const store = createMemoryRunStore();
  await store.begin(new Map());
  return store;
}

async function list<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("runRollout()", () => {
  it("plays every task as often as planned, group by group, never more than the bound at once", async () => {
    const { play, log, clock } = playerOf(passing);
    const store = await openedStore();
    const running = runRollout(plan(5, 4), { play, store, exportSamples: rows }, { concurrency: 3, clock });
    await clock.drain();
    const totals = await running;
    expect(log.mostRunning).toBe(3);
    expect(log.started).toEqual(Array.from({ length: 20 }, (_, at) => `desk:train:${Math.floor(at / 4)}#${at % 4}`));
    expect((await list(store.sampleLines())).toSorted()).toContain("6 1 desk:train:1#2/0");
    expect(totals).toMatchObject({ episodesPlanned: 20, episodesStarted: 20, episodesFinished: 20, groupsFinished: 5 });
  });

  it("gives equal episodes and rows whatever the concurrency and the durations", async () => {
    const results: unknown[] = [];
    for (const [concurrency, wobble] of [
      [1, 0],
      [7, 13],
      [64, 29],
    ] as const) {
      const { play, clock } = playerOf(({ index }, sample) => ({
        ...passing(),
        ms: 1 + ((index * 31 + sample * wobble) % 17),
      }));
      const store = await openedStore();
      const running = runRollout(plan(6, 3), { play, store, exportSamples: rows }, { concurrency, clock });
      await clock.drain();
      await running;
      const episodes = (await list(store.episodes())).toSorted((a, b) => a.id.localeCompare(b.id));
      results.push([episodes, (await list(store.sampleLines())).toSorted()]);
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });

  it("adds up outcomes, rewards, faults, dropped tokens and groups without signal", async () => {
    const { play, clock } = playerOf(({ index }, sample) => {
      if (index === 0) return { outcome: "completed", reward: sample % 2, ms: 1 };
      if (index === 1) return { outcome: "truncated", reward: 0.5, ms: 1 };
      return sample === 0 ? { outcome: "failed", reward: null, ms: 1 } : { outcome: "aborted", reward: null, ms: 1 };
    });
    const store = await openedStore();
    const seen: RunTotals[] = [];
    const running = runRollout(
      plan(3, 2),
      { play, store, exportSamples: rows },
      { clock, onProgress: (totals) => seen.push(totals()) },
    );
    await clock.drain();
    const totals = await running;
    expect(totals).toEqual({
      episodesPlanned: 6,
      episodesStarted: 6,
      episodesFinished: 6,
      groupsPlanned: 3,
      groupsFinished: 3,
      groupsWithoutSignal: 2,
      outcomes: { completed: 2, truncated: 2, aborted: 1, failed: 1 },
      stopReasons: { tool_ended: 4, fault: 1, engine_abort: 1 },
      graded: 4,
      passed: 1,
      passRate: 0.25,
      meanReward: 0.5,
      turns: 6,
      sampledTokens: 12,
      promptTokens: 12,
      retries: 6,
      failures: { "engine/timeout": 1 },
      problems: {},
      samples: 4,
      trainedTokens: 8,
      droppedTokens: { "episode-aborted": 4 },
      agentModelCalls: 0,
      agentCost: 0,
      userModelCalls: 0,
      userCost: 0,
      elapsedMs: 1,
    });
    expect(seen[0]).toMatchObject({ episodesStarted: 1, episodesFinished: 0, passRate: null });
    expect(seen).toHaveLength(18);
  });

  it("starts nothing after a drain and lets running episodes end", async () => {
    const { play, log, clock } = playerOf(passing);
    const store = await openedStore();
    const drain = new AbortController();
    const running = runRollout(
      plan(10, 1),
      { play, store, exportSamples: rows },
      { concurrency: 4, clock, drain: drain.signal },
    );
    await clock.advance(5);
    drain.abort();
    await clock.drain();
    expect(await running).toMatchObject({ episodesStarted: 4, episodesFinished: 4, passed: 4 });
    expect(log.started).toHaveLength(4);
  });

  it("cancels running episodes, counts them as aborted and keeps nothing of them: they have not ended", async () => {
    const { play, clock } = playerOf(passing);
    const store = await openedStore();
    const cancel = new AbortController();
    const running = runRollout(
      plan(10, 1),
      { play, store, exportSamples: rows },
      { concurrency: 4, clock, signal: cancel.signal },
    );
    await clock.advance(5);
    cancel.abort();
    expect(await running).toMatchObject({ episodesFinished: 4, samples: 0, stopReasons: { cancelled: 4 } });
    expect(await list(store.episodes())).toEqual([]);
    expect(await list(store.groups())).toEqual([]);
    const before = await runRollout(plan(3, 1), { play, store, exportSamples: rows }, { signal: AbortSignal.abort() });
    expect(before.episodesStarted).toBe(0);
  });

  it("stops with the fault of the store, of an export or of the configuration, and cancels what runs", async () => {
    const { play, log, clock } = playerOf(({ index }) => ({ ...passing(), ms: index === 2 ? 5 : 1_000 }));
    const failing = {
      append: async (episode: Episode) => {
        if (episode.task.index === 2) throw new Error("disk full");
      },
      appendGroup: async () => {},
    };
    const running = runRollout(plan(50, 1), { play, store: failing, exportSamples: rows }, { concurrency: 4, clock });
    const settled = expect(running).rejects.toThrow("disk full");
    await clock.advance(6);
    await settled;
    expect(log.started).toHaveLength(4);
    expect(log.running).toBe(0);

    const store = await openedStore();
    const lost = runRollout(plan(1, 1), {
      play: async () => {
        throw new ConfigurationError("Cannot play this task.");
      },
      store,
      exportSamples: rows,
    });
    await expect(lost).rejects.toThrow("Cannot play this task.");
  });

  it("refuses a plan with a task twice, a task that does not exist, or no sample", async () => {
    const { play } = playerOf(passing);
    const parts = { play, store: await openedStore(), exportSamples: rows };
    await expect(runRollout({ ...plan(1, 1), taskIndexes: [1, 1] }, parts)).rejects.toThrow("planned twice");
    await expect(runRollout({ ...plan(1, 1), taskIndexes: [100] }, parts)).rejects.toThrow("from 0 to 99");
    await expect(runRollout(plan(1, 0), parts)).rejects.toThrow("samplesPerTask is 0");
  });
});

describe("rolloutWarnings()", () => {
  const exact = { temperature: 1, topP: 1, topK: -1, minP: 0 };
  it("is silent about sampling from the policy itself", () => {
    expect(rolloutWarnings(exact, 8)).toEqual([]);
    expect(rolloutWarnings({ ...exact, temperature: 0 }, 1)).toEqual([]);
  });

  it("warns of groups that will be alike and of truncated sampling", () => {
    expect(rolloutWarnings({ ...exact, temperature: 0 }, 8)).toEqual([expect.stringContaining("8 samples a task")]);
    expect(rolloutWarnings({ ...exact, topP: 0.9, topK: 50, minP: 0.1 }, 8)).toEqual([
      expect.stringContaining("(top-p 0.9, top-k 50, min-p 0.1)"),
    ]);
  });
});
