import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { GroupRecord, Task } from "../core/index.ts";
import { createRandom, deriveSeed } from "../lib/random.ts";
import {
  byPriority,
  dropZeroSignal,
  type GroupFilter,
  keepRewardRange,
  runRollout,
  type RolloutOptions,
} from "./index.ts";
import { type Behaviour, list, openedStore, passing, plan, runnerOf, rows } from "./scripted-run.test-helper.ts";

const isFull = process.env["FULL"] === "1";

async function runScript(
  behave: (task: Task, sampleIndex: number) => Behaviour,
  size: { readonly tasks: number; readonly samples: number },
  options: RolloutOptions = {},
) {
  const { runEpisode, clock, log } = runnerOf(behave);
  const store = await openedStore();
  const parts = { runEpisode, store, exportSamples: rows };
  const running = runRollout(plan(size.tasks, size.samples), parts, { clock, ...options });
  running.catch(() => undefined);
  await clock.drain();
  const totals = await running;
  const groups = (await list(store.groups())).toSorted((a, b) => a.groupIndex - b.groupIndex);
  return { totals, groups, log, lines: await list(store.sampleLines()), episodes: await list(store.episodes()) };
}

const decisions = (groups: readonly GroupRecord[]) => groups.map(({ groupIndex, reason }) => [groupIndex, reason]);

/** Tasks 0, 3, 6, ... are passed sometimes; the others always or never. */
const mixed = ({ index }: Task, sample: number): Behaviour => ({
  outcome: "completed",
  reward: index % 3 === 0 ? sample % 2 : index % 3 === 1 ? 1 : 0,
  ms: 1 + ((index * 7 + sample * 3) % 11),
});

describe("groups of a run", () => {
  it("are dropped with a reason when a filter says so, their tokens counted and their rows not written", async () => {
    const { groups, totals, lines } = await runScript(
      mixed,
      { tasks: 6, samples: 4 },
      { groups: { filters: [dropZeroSignal()] } },
    );
    const zero = "zero-signal";
    expect(decisions(groups)).toEqual([
      [0, null],
      [1, zero],
      [2, zero],
      [3, null],
      [4, zero],
      [5, zero],
    ]);
    expect(totals).toMatchObject({
      groupsKept: 2,
      groupsDropped: { "zero-signal": 4 },
      samples: 8,
      episodesFinished: 24,
    });
    expect(totals.trainedTokens).toBe(16);
    expect(totals.droppedTokens).toEqual({ filtered: 32 });
    expect(lines.map((line) => line.split(" ")[1])).toEqual(Array.from("00003333"));
  });

  it("pass filters in order, and a filter of the user's own sees the episodes", async () => {
    const own: GroupFilter = ({ episodes, rewards }) => (episodes.length === rewards.length ? null : "someone failed");
    const behave = ({ index }: Task, sample: number): Behaviour =>
      index === 2 && sample === 1
        ? { outcome: "failed", reward: null, ms: 1 }
        : { outcome: "completed", reward: [0.2, 0.5, 0.6, 0.9][index]!, ms: 1 };
    const filters = [keepRewardRange({ min: 0.3, max: 0.8 }), own];
    const { groups } = await runScript(behave, { tasks: 4, samples: 2 }, { groups: { filters } });
    expect(decisions(groups)).toEqual([
      [0, "reward-range"],
      [1, null],
      [2, "someone failed"],
      [3, "reward-range"],
    ]);
  });

  it("stop the run when a filter throws", async () => {
    const filters = [
      () => {
        throw new Error("no such field");
      },
    ];
    const { runEpisode, clock } = runnerOf(passing);
    const parts = { runEpisode, store: await openedStore(), exportSamples: rows };
    const running = runRollout(plan(3, 2), parts, { clock, groups: { filters } });
    const settled = expect(running).rejects.toThrow("no such field");
    await clock.drain();
    await settled;
  });

  it("are run until as many are kept as are requested: new tasks, then the same ones again with other seeds", async () => {
    const filters = [dropZeroSignal()];
    const { groups, totals, log } = await runScript(
      mixed,
      { tasks: 6, samples: 2 },
      { groups: { filters }, quota: { target: 3 } },
    );
    expect(groups.filter(({ decision }) => decision === "kept").map(({ groupId }) => groupId)).toEqual([
      "desk:train:0",
      "desk:train:3",
      "desk:train:0@2",
    ]);
    expect(totals).toMatchObject({ groupsTarget: 3, groupsKept: 3, groupsFinished: 7 });
    expect(log.started.slice(-2)).toEqual(["desk:train:0@2#0", "desk:train:0@2#1"]);
    expect(new Set(log.started).size).toBe(14);
  });

  it("give up at maxGroups when nothing passes", async () => {
    const { totals } = await runScript(
      passing,
      { tasks: 2, samples: 2 },
      { groups: { filters: [dropZeroSignal()] }, quota: { target: 3, maxGroups: 7 } },
    );
    expect(totals).toMatchObject({ groupsKept: 0, groupsFinished: 7, groupsDropped: { "zero-signal": 7 } });
  });

  it("beyond those that are needed are stopped, recorded and their tokens dropped", async () => {
    const slow = ({ index }: Task): Behaviour => ({
      outcome: "completed",
      reward: 1,
      ms: index < 2 ? 5 : 1000,
      turns: 5,
    });
    const { groups, totals, episodes } = await runScript(
      slow,
      { tasks: 4, samples: 2 },
      { quota: { target: 2, oversample: 2 } },
    );
    expect(decisions(groups)).toEqual([
      [0, null],
      [1, null],
      [2, "surplus"],
      [3, "surplus"],
    ]);
    expect(totals).toMatchObject({ stopReasons: { tool_ended: 4, cancelled: 4 }, elapsedMs: 5, samples: 4 });
    expect(totals.sampledTokens).toBe(totals.trainedTokens + totals.droppedTokens["episode-aborted"]!);
    expect(episodes).toHaveLength(8);
  });

  it("in finishing order are those that end first; in plan order they are not", async () => {
    const late = ({ index }: Task): Behaviour => ({ outcome: "completed", reward: 1, ms: index === 0 ? 50 : 5 });
    const size = { tasks: 3, samples: 1 };
    const quota = { target: 2, oversample: 1.5 };
    const finished = await runScript(late, size, { quota: { ...quota, order: "finished" } });
    expect(decisions(finished.groups)).toEqual([
      [0, "surplus"],
      [1, null],
      [2, null],
    ]);
    const planned = await runScript(late, size, { quota });
    expect(decisions(planned.groups)).toEqual([
      [0, null],
      [1, null],
      [2, "surplus"],
    ]);
  });

  it("that stay short are dropped, or made whole with further episodes", async () => {
    const failing = ({ index }: Task, sample: number): Behaviour =>
      sample <= index && sample < 3
        ? { outcome: "failed", reward: null, ms: 1 }
        : { outcome: "completed", reward: 1, ms: 1 };
    const size = { tasks: 4, samples: 4 };
    const short = await runScript(failing, size, { groups: { minGraded: 3 } });
    const few = "too-few-graded";
    expect(decisions(short.groups)).toEqual([
      [0, null],
      [1, few],
      [2, few],
      [3, few],
    ]);
    const refilled = await runScript(failing, size, { groups: { minGraded: 4, replacements: 2 } });
    expect(decisions(refilled.groups)).toEqual([
      [0, null],
      [1, null],
      [2, few],
      [3, few],
    ]);
    expect(refilled.groups[1]!.episodeIds).toHaveLength(6);
    // Episodes are numbered with room for the replacements.
    expect(refilled.lines.map((line) => Number(line.split(" ")[0]))).toEqual([1, 2, 3, 4, 8, 9, 10, 11]);
    const none = await runScript(() => ({ outcome: "failed", reward: null, ms: 1 }), { tasks: 1, samples: 2 });
    expect(decisions(none.groups)).toEqual([[0, "not-graded"]]);
  });

  it("that take too long are ended: dropped, or decided by what has finished", async () => {
    const tail = ({ index }: Task, sample: number): Behaviour => ({
      outcome: "completed",
      reward: sample % 2,
      ms: index === 1 && sample === 3 ? 10_000 : 10,
    });
    const size = { tasks: 3, samples: 4 };
    const dropped = await runScript(tail, size, { groups: { cutoff: { afterMs: 100, policy: "drop" } } });
    expect(decisions(dropped.groups)).toEqual([
      [0, null],
      [1, "cut-off"],
      [2, null],
    ]);
    expect(dropped.totals.elapsedMs).toBe(100);
    const kept = await runScript(tail, size, { groups: { cutoff: { afterMs: 100, policy: "keep" }, minGraded: 3 } });
    expect(decisions(kept.groups)).toEqual([
      [0, null],
      [1, null],
      [2, null],
    ]);
    expect(kept.groups[1]!.rewards).toEqual([0, 1, 0, null]);
    const tooFew = await runScript(tail, size, { groups: { cutoff: { afterMs: 100, policy: "keep" }, minGraded: 4 } });
    expect(decisions(tooFew.groups)).toEqual([
      [0, null],
      [1, "cut-off"],
      [2, null],
    ]);
  });

  it("start in the order of the plan, one after the other, so that none waits behind a younger one", async () => {
    const behave = ({ index }: Task, sample: number): Behaviour =>
      index === 0 && sample === 0 ? { outcome: "failed", reward: null, ms: 15 } : { ...passing() };
    const { log } = await runScript(behave, { tasks: 4, samples: 3 }, { concurrency: 2, groups: { replacements: 1 } });
    const started = log.started.map((id) => id.replace("desk:train:", ""));
    expect(started.slice(0, 6)).toEqual(["0#0", "0#1", "0#2", "0#3", "1#0", "1#1"]);
    expect(byPriority([0, 1, 2, 3, 4], (index) => (index === 2 || index === 4 ? 1 : 0))).toEqual([2, 4, 0, 1, 3]);
  });

  it("have at least one place to be graded at", async () => {
    await expect(runScript(passing, { tasks: 1, samples: 2 }, { groups: { minGraded: 3 } })).rejects.toThrow(
      "minGraded is 3",
    );
    await expect(runScript(passing, { tasks: 1, samples: 2 }, { groups: { replacements: -1 } })).rejects.toThrow(
      "replacements",
    );
  });
});

describe("groups of a run, at random", () => {
  const world = fc.record({
    seed: fc.nat(),
    tasks: fc.integer({ min: 1, max: 8 }),
    samples: fc.integer({ min: 1, max: 5 }),
    concurrency: fc.integer({ min: 1, max: 9 }),
    target: fc.option(fc.integer({ min: 1, max: 6 })),
    oversample: fc.constantFrom(1, 1.5, 3),
    order: fc.constantFrom<"plan" | "finished">("plan", "finished"),
    replacements: fc.nat(2),
    minGraded: fc.integer({ min: 1, max: 5 }),
    cutoff: fc.option(
      fc.record({ afterMs: fc.integer({ min: 1, max: 40 }), policy: fc.constantFrom<"keep" | "drop">("keep", "drop") }),
    ),
    drainAt: fc.option(fc.integer({ min: 0, max: 60 })),
  });

  /** Durations depend on `timing`, everything else depends only on the place in the plan. */
  const behaviour =
    (seed: number, timing: number) =>
    (one: Task, sample: number): Behaviour => {
      const fate = createRandom(deriveSeed(seed, one.id, sample));
      const kind = fate.next();
      const ms = 1 + createRandom(deriveSeed(timing, one.id, sample)).integer(30);
      if (kind < 0.15) return { outcome: "failed", reward: null, ms };
      if (kind < 0.25) return { outcome: "aborted", reward: null, ms };
      return { outcome: "completed", reward: fate.integer(2), ms };
    };

  it("none is decided twice, every token is accounted for, kept ones are whole enough, and the bound holds", async () => {
    await fc.assert(
      fc.asyncProperty(world, async (drawn) => {
        const { runEpisode, clock, log } = runnerOf(behaviour(drawn.seed, drawn.seed + 1));
        const store = await openedStore();
        const drain = new AbortController();
        const minGraded = Math.min(drawn.minGraded, drawn.samples);
        const { replacements, cutoff, target, oversample, order, concurrency, drainAt } = drawn;
        const groupPolicy = { filters: [dropZeroSignal()], minGraded, replacements, cutoff };
        const running = runRollout(
          plan(drawn.tasks, drawn.samples),
          { runEpisode, store, exportSamples: rows },
          { clock, concurrency, groups: groupPolicy, quota: { target, oversample, order }, drain: drain.signal },
        );
        if (drainAt !== null) {
          await clock.advance(drainAt);
          drain.abort();
        }
        await clock.drain();
        const totals = await running;
        const groups = await list(store.groups());
        const episodes = await list(store.episodes());
        expect(log.mostRunning).toBeLessThanOrEqual(concurrency);
        expect(clock.sleeping).toBe(0);
        expect(new Set(groups.map(({ groupId }) => groupId)).size).toBe(groups.length);
        expect(new Set(log.started).size).toBe(log.started.length);
        expect(episodes.map(({ id }) => id).toSorted()).toEqual(log.started.toSorted());
        const decided = groups.flatMap(({ episodeIds }) => episodeIds);
        expect(new Set(decided).size).toBe(decided.length);
        if (drainAt === null) expect(decided.toSorted()).toEqual(log.started.toSorted());
        for (const { decision, rewards } of groups) {
          if (decision === "dropped") continue;
          expect(rewards.filter((reward) => reward !== null).length).toBeGreaterThanOrEqual(minGraded);
          if (cutoff === null) expect(rewards.length).toBeGreaterThanOrEqual(drawn.samples);
        }
        const kept = groups.filter(({ decision }) => decision === "kept").length;
        expect(totals.groupsKept).toBe(kept);
        if (target !== null) expect(kept).toBeLessThanOrEqual(target);
        const droppedTokens = Object.values(totals.droppedTokens).reduce((sum, count) => sum + count, 0);
        if (drainAt === null) expect(totals.trainedTokens + droppedTokens).toBe(totals.sampledTokens);
      }),
      { seed: 2, numRuns: isFull ? 250 : 25 },
    );
  });

  it("are the same with other durations and another concurrency, where nothing is said to depend on timing", async () => {
    const untimed = world.map((drawn) => ({
      ...drawn,
      cutoff: null,
      drainAt: null,
      order: "plan" as const,
      minGraded: 1,
    }));
    await fc.assert(
      fc.asyncProperty(untimed, async (drawn) => {
        const results: unknown[] = [];
        for (const [timing, concurrency] of [
          [1, drawn.concurrency],
          [2, 20],
        ] as const) {
          const { groups, lines, episodes } = await runScript(
            behaviour(drawn.seed, timing),
            { tasks: drawn.tasks, samples: drawn.samples },
            {
              concurrency,
              groups: { filters: [dropZeroSignal()], replacements: drawn.replacements },
              quota: { target: drawn.target, oversample: drawn.oversample, order: drawn.order },
            },
          );
          const kept = groups.filter(({ decision }) => decision === "kept");
          const all = drawn.oversample === 1 || drawn.target === null;
          results.push([lines.toSorted(), kept, all ? groups : [], all ? episodes.map(({ id }) => id).toSorted() : []]);
        }
        expect(results[1]).toEqual(results[0]);
      }),
      { seed: 3, numRuns: isFull ? 100 : 8 },
    );
  });
});
