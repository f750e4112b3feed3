import { describe, expect, it } from "vitest";
import { type PlannedGroup, runGroups } from "./index.ts";
import { list, openedStore, passing, runnerOf, task } from "./scripted-run.test-helper.ts";

const plans = (count: number): PlannedGroup[] =>
  Array.from({ length: count }, (_, groupIndex) => ({
    groupId: task(groupIndex).id,
    task: task(groupIndex),
    groupIndex,
  }));

describe("runGroups()", () => {
  it("resolves with the groups in the given order, whatever finished first, and never exceeds the concurrency", async () => {
    const { runEpisode, log, clock } = runnerOf(({ index }) => ({ ...passing(), ms: 100 - index }));
    const store = await openedStore();
    const running = runGroups(plans(4), { runEpisode, groupSize: 2, concurrency: 5, clock, store });
    await clock.drain();
    const groups = await running;
    expect(log.mostRunning).toBe(5);
    expect(groups.map(({ plan, members, ending }) => [plan.groupIndex, members.length, ending])).toEqual(
      [0, 1, 2, 3].map((index) => [index, 2, "complete"]),
    );
    expect(await list(store.episodes())).toHaveLength(8);
  });

  it("leaves out groups that were open when the signal aborted, and stores none of their cancelled episodes", async () => {
    const { runEpisode, clock } = runnerOf(({ index }) => ({ ...passing(), ms: index === 0 ? 10 : 1_000 }));
    const store = await openedStore();
    const controller = new AbortController();
    clock.after(500, () => controller.abort());
    const { signal } = controller;
    const running = runGroups(plans(3), { runEpisode, groupSize: 2, clock, store, signal });
    await clock.drain();
    expect((await running).map(({ plan }) => plan.groupIndex)).toEqual([0]);
    expect((await list(store.episodes())).map(({ id }) => id).toSorted()).toEqual(["desk:train:0#0", "desk:train:0#1"]);
  });

  it("rejects with what a runner throws, and with a RangeError for a size below 1", async () => {
    const broken = { runEpisode: () => Promise.reject(new Error("No such template.")), groupSize: 2 };
    await expect(runGroups(plans(1), broken)).rejects.toThrow("No such template.");
    await expect(runGroups(plans(1), { ...broken, groupSize: 0 })).rejects.toThrow("groupSize is 0");
  });
});
