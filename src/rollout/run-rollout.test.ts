import { describe, expect, it } from "vitest";
import { ConfigurationError, type Episode } from "../core/index.ts";
import { rolloutWarnings, runRollout, type RunTotals } from "./index.ts";
import { list, openedStore, passing, plan, runnerOf, rows } from "./scripted-run.test-helper.ts";

describe("runRollout()", () => {
  it("plays every task as often as planned, group by group, never more than the bound at once", async () => {
    const { runEpisode, log, clock } = runnerOf(passing);
    const store = await openedStore();
    const running = runRollout(plan(5, 4), { runEpisode, store, exportSamples: rows }, { concurrency: 3, clock });
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
      const { runEpisode, clock } = runnerOf(({ index }, sample) => ({
        ...passing(),
        ms: 1 + ((index * 31 + sample * wobble) % 17),
      }));
      const store = await openedStore();
      const running = runRollout(plan(6, 3), { runEpisode, store, exportSamples: rows }, { concurrency, clock });
      await clock.drain();
      await running;
      const episodes = (await list(store.episodes())).toSorted((a, b) => a.id.localeCompare(b.id));
      results.push([episodes, (await list(store.sampleLines())).toSorted()]);
    }
    expect(results[1]).toEqual(results[0]);
    expect(results[2]).toEqual(results[0]);
  });

  it("adds up outcomes, rewards, faults, dropped tokens and groups without signal", async () => {
    const { runEpisode, clock } = runnerOf(({ index }, sample) => {
      if (index === 0) return { outcome: "completed", reward: sample % 2, ms: 1 };
      if (index === 1) return { outcome: "truncated", reward: 0.5, ms: 1, logprobs: [-100, -9999] };
      return sample === 0 ? { outcome: "failed", reward: null, ms: 1 } : { outcome: "aborted", reward: null, ms: 1 };
    });
    const store = await openedStore();
    const seen: RunTotals[] = [];
    const running = runRollout(
      plan(3, 2),
      { runEpisode, store, exportSamples: rows },
      { clock, onProgress: (totals) => seen.push(totals()) },
    );
    await clock.drain();
    const totals = await running;
    expect(totals).toEqual({
      episodesPlanned: 6,
      episodesStarted: 6,
      episodesFinished: 6,
      recordedEpisodes: 0,
      groupsPlanned: 3,
      groupsFinished: 3,
      groupsTarget: null,
      groupsKept: 2,
      groupsDropped: { "not-graded": 1 },
      groupsWithoutSignal: 2,
      ungradedTasks: { "desk:train:2": 1 },
      outcomes: { completed: 2, truncated: 2, aborted: 1, failed: 1 },
      stopReasons: { tool_ended: 4, fault: 1, engine_abort: 1 },
      endings: {},
      graded: 4,
      passed: 1,
      passRate: 0.25,
      meanReward: 0.5,
      turns: 6,
      sampledTokens: 12,
      recordedTurns: 0,
      recordedSampledTokens: 0,
      promptTokens: 12,
      retries: 6,
      failures: { "engine/timeout": 1 },
      spelledTokens: 0,
      unlikelyTokens: 2,
      deviations: {},
      firstFailures: { "engine/timeout": expect.any(String) as string },
      gradedWithoutTurn: 0,
      problems: {},
      cutResults: 0,
      closeFailures: 0,
      samples: 4,
      trainedTokens: 8,
      droppedTokens: { "episode-aborted": 4 },
      agentModelCalls: 0,
      agentCost: 0,
      userModelCalls: 0,
      userCost: 0,
      judgeModelCalls: 0,
      judgeCost: 0,
      concurrency: 64,
      elapsedMs: 1,
    });
    expect(seen[0]).toMatchObject({ episodesStarted: 1, episodesFinished: 0, passRate: null });
    expect(seen).toHaveLength(21);
  });

  it("starts nothing after a drain and lets running episodes end", async () => {
    const { runEpisode, log, clock } = runnerOf(passing);
    const store = await openedStore();
    const drain = new AbortController();
    const running = runRollout(
      plan(10, 1),
      { runEpisode, store, exportSamples: rows },
      { concurrency: 4, clock, drain: drain.signal },
    );
    await clock.advance(5);
    drain.abort();
    await clock.drain();
    expect(await running).toMatchObject({ episodesStarted: 4, episodesFinished: 4, passed: 4 });
    expect(log.started).toHaveLength(4);
  });

  it("cancels running episodes, counts them as aborted and keeps nothing of them: they have not ended", async () => {
    const { runEpisode, clock } = runnerOf(passing);
    const store = await openedStore();
    const cancel = new AbortController();
    const running = runRollout(
      plan(10, 1),
      { runEpisode, store, exportSamples: rows },
      { concurrency: 4, clock, signal: cancel.signal },
    );
    await clock.advance(5);
    cancel.abort();
    expect(await running).toMatchObject({ episodesFinished: 4, samples: 0, stopReasons: { cancelled: 4 } });
    expect(await list(store.episodes())).toEqual([]);
    expect(await list(store.groups())).toEqual([]);
    const before = await runRollout(
      plan(3, 1),
      { runEpisode, store, exportSamples: rows },
      { signal: AbortSignal.abort() },
    );
    expect(before.episodesStarted).toBe(0);
  });

  it("stops with the fault of the store, of an export or of the configuration, and cancels what runs", async () => {
    const { runEpisode, log, clock } = runnerOf(({ index }) => ({ ...passing(), ms: index === 2 ? 5 : 1_000 }));
    const failing = {
      append: async (episode: Episode) => {
        if (episode.task.index === 2) throw new Error("disk full");
      },
      appendGroup: async () => {},
    };
    const running = runRollout(
      plan(50, 1),
      { runEpisode, store: failing, exportSamples: rows },
      { concurrency: 4, clock },
    );
    const settled = expect(running).rejects.toThrow("disk full");
    await clock.advance(6);
    await settled;
    expect(log.started).toHaveLength(4);
    expect(log.running).toBe(0);

    const store = await openedStore();
    const lost = runRollout(plan(1, 1), {
      runEpisode: async () => {
        throw new ConfigurationError("Cannot run this task.");
      },
      store,
      exportSamples: rows,
    });
    await expect(lost).rejects.toThrow("Cannot run this task.");
  });

  it("refuses a plan with a task twice, a task that does not exist, or no sample", async () => {
    const { runEpisode } = runnerOf(passing);
    const parts = { runEpisode, store: await openedStore(), exportSamples: rows };
    await expect(runRollout({ ...plan(1, 1), taskIndexes: [1, 1] }, parts)).rejects.toThrow("listed twice");
    await expect(runRollout({ ...plan(1, 1), taskIndexes: [100] }, parts)).rejects.toThrow("from 0 to 99");
    await expect(runRollout(plan(1, 0), parts)).rejects.toThrow("groupSize is 0");
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
