// Worlds that cannot be opened, with a store in memory and no wait anywhere.

import { describe, expect, it } from "vitest";

import { AttributedError, type Boundary } from "../core/index.ts";
import { FailedOpenings } from "./failed-openings.ts";
import { createRolloutProducer, type RunEpisode, runRollout, tasksInOrder } from "./index.ts";
import { openedStore, plan, runnerOf, taskset } from "./scripted-run.test-helper.ts";

/** Episodes that fail at once at a boundary, except those whose number `succeeds` accepts. */
function failing(boundary: Boundary, succeeds: (number: number) => boolean = () => false) {
  let started = 0;
  const { runEpisode, clock } = runnerOf(() => {
    const isFine = succeeds(++started);
    return isFine ? { outcome: "completed", reward: 1, ms: 0 } : { outcome: "failed", reward: null, ms: 0, turns: 0 };
  });
  const failure = { boundary, code: "refused", message: "The shop is shut.", retryable: true, cause: null };
  const run: RunEpisode = async (task, place) => {
    const finished = await runEpisode(task, place);
    const { episode } = finished;
    return episode.failure === null ? finished : { ...finished, episode: { ...episode, failure } };
  };
  return { run, clock, count: () => started };
}

const produced = {
  taskset,
  tasks: tasksInOrder([0, 1, 2], { passes: Infinity }),
  groupSize: 4,
  seed: 1,
  batchGroups: 2,
};

describe("episodes that all fail at their opening", () => {
  it.each([
    [8, 100],
    [64, 256],
  ])("end a producer with their reason, %j in flight: after %j of them", async (concurrency, most) => {
    const { run, count } = failing("environment");
    const producer = createRolloutProducer(produced, { runEpisode: run, store: await openedStore() }, { concurrency });
    let ticks = 0;
    const timer = setInterval(() => ticks++, 0);
    const taken = producer.take(1);
    await expect(taken).rejects.toThrow(AttributedError);
    await expect(taken).rejects.toThrow(
      `Cannot produce groups: ${most} episodes in a row failed before their first turn, the last one with environment/refused: The shop is shut.`,
    );
    clearInterval(timer);
    expect(producer.status.state).toBe("failed");
    expect(count()).toBeLessThan(most + 2 * concurrency);
    // The timer ran meanwhile, although nothing waited.
    expect(ticks).toBeGreaterThan(0);
  });

  it("end a run that keeps a number of groups", async () => {
    const { run, count } = failing("user");
    const parts = { runEpisode: run, store: await openedStore() };
    const running = runRollout(plan(3, 2), parts, { concurrency: 4, quota: { target: 500 } });
    await expect(running).rejects.toThrow(
      "Cannot keep 500 groups: 100 episodes in a row failed before their first turn",
    );
    expect(count()).toBeLessThan(120);
  });

  it("do not end a run whose every task is run once", async () => {
    const { run, count } = failing("environment");
    const totals = await runRollout(plan(60, 2), { runEpisode: run, store: await openedStore() });
    expect([count(), totals.outcomes.failed]).toEqual([120, 120]);
  });

  it.each<[string, Boundary, (number: number) => boolean]>([
    ["one of 40 plays", "environment", (number) => number % 40 === 0],
    ["the engine is at fault", "engine", () => false],
  ])("go on where %s, and timers run", async (_, boundary, succeeds) => {
    const { run, clock, count } = failing(boundary, succeeds);
    const producer = createRolloutProducer(
      produced,
      { runEpisode: run, store: await openedStore() },
      { clock, concurrency: 4, groups: { minGraded: 4 } },
    );
    while (count() < 500 && producer.status.state === "running") await clock.advance(1);
    expect(producer.status.state).toBe("running");
    await producer.cancel();
  });
});

it("an aborted episode says nothing", () => {
  const openings = new FailedOpenings("produce groups");
  const failure = { boundary: "environment", code: "c", message: "m.", retryable: false, cause: null } as const;
  const summary = { id: "", groupId: "", sampleIndex: 0, taskId: "", stopReason: "fault", ending: null, reward: null, metrics: {}, turns: 0, sampledTokens: 0, weightSpans: [], problems: {}, samples: 0, trainedTokens: 0, dropped: {} } as const; // prettier-ignore
  for (let count = 1; count < 100; count++) openings.see({ ...summary, outcome: "failed", failure }, Infinity);
  openings.see({ ...summary, outcome: "aborted", failure: null }, Infinity);
  expect(() => openings.see({ ...summary, outcome: "failed", failure }, Infinity)).toThrow("100 episodes in a row");
});
