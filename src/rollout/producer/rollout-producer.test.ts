import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { GroupRecord, Task } from "../../core/index.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import {
  createRolloutProducer,
  dropZeroSignal,
  groupCapacity,
  type ProducedGroup,
  type ProducerOptions,
  tasksInOrder,
} from "../index.ts";
import { type Behaviour, list, openedStore, passing, runnerOf, rows, taskset } from "../scripted-run.test-helper.ts";
import { WeightHistory } from "./staleness.ts";

const isFull = process.env["FULL"] === "1";

type World = {
  readonly behave?: (task: Task, sampleIndex: number) => Behaviour;
  readonly tasks?: number;
  readonly passes?: number;
  readonly groupSize?: number;
  readonly batchGroups?: number;
};

/** A producer with scripted episodes, and an engine whose version is `server.version`. */
async function produce(world: World = {}, options: ProducerOptions = {}) {
  const { behave = passing, tasks = 20, passes = Infinity, groupSize = 2, batchGroups = 2 } = world;
  const server = { version: "v0" };
  const { runEpisode, clock, log } = runnerOf(behave, undefined, () => server.version);
  const store = await openedStore();
  const decided: GroupRecord[] = [];
  const indexes = Array.from({ length: tasks }, (_, index) => index);
  const producer = createRolloutProducer(
    { taskset, tasks: tasksInOrder(indexes, { passes }), groupSize, seed: 1, batchGroups },
    { runEpisode, store, exportSamples: rows },
    { clock, weightVersion: "v0", onGroup: (record) => decided.push(record), ...options },
  );
  const update = (version: number): void => {
    server.version = `v${version}`;
    producer.reportWeightVersion(server.version);
  };
  return { producer, clock, log, store, decided, server, update };
}

const ids = (groups: readonly ProducedGroup[]): string[] =>
  groups.map(({ record }) => record.groupId.replace("desk:train:", ""));

/** The versions of all tokens that a group trains, from its samples. */
const versionsOf = (group: ProducedGroup): number[] =>
  group.episodes.flatMap(({ result }) =>
    result.samples.flatMap(({ weightRanges }) =>
      weightRanges.flatMap(({ dispatch, reply }) => [dispatch, reply].map((version) => Number(version?.slice(1)))),
    ),
  );

describe("RolloutProducer", () => {
  it("hands over groups in the order in which they were begun, and begins no more than staleness and buffer allow", async () => {
    const { producer, clock, log, update } = await produce({}, { maxStaleness: 1 });
    await clock.drain();
    expect(log.started).toHaveLength(8);
    expect(producer.status).toMatchObject({ state: "running", buffered: 4, openGroups: 0, version: 0 });
    expect(ids(await producer.take(2))).toEqual(["0", "1"]);
    await clock.drain();
    // Taken groups count against the staleness bound until the trainer reports the next version.
    expect(log.started).toHaveLength(8);
    update(1);
    await clock.drain();
    expect(log.started).toHaveLength(12);
    expect(ids(await producer.take(4))).toEqual(["2", "3", "4", "5"]);
    await producer.cancel();
  });

  it("is synchronous with staleness 0: every token is of the version that its batch trains, whatever the durations", async () => {
    const runs: string[][] = [];
    for (const timing of [1, 2]) {
      const behave = (one: Task, sample: number): Behaviour => ({
        outcome: "completed",
        reward: createRandom(deriveSeed(9, one.id, sample)).integer(2),
        ms: 1 + createRandom(deriveSeed(timing, one.id, sample)).integer(20),
        turns: 3,
      });
      const { producer, clock, update } = await produce(
        { behave, groupSize: 3, batchGroups: 3 },
        { maxStaleness: 0, groups: { filters: [dropZeroSignal()] } },
      );
      const taken: string[] = [];
      for (let version = 0; version < 4; version++) {
        const taking = producer.take(3);
        await clock.drain();
        const groups = await taking;
        for (const group of groups) {
          expect(new Set(versionsOf(group))).toEqual(new Set([version]));
          expect(group.staleness).toBe(0);
        }
        taken.push(...ids(groups));
        update(version + 1);
      }
      await producer.cancel();
      runs.push(taken);
    }
    expect(runs[1]).toEqual(runs[0]);
  });

  it("drops what grew too old, waiting or in flight, with the reason; or runs its task again next", async () => {
    for (const stale of ["drop", "requeue"] as const) {
      const slow = ({ index }: Task): Behaviour => ({
        outcome: "completed",
        reward: 1,
        ms: index === 0 ? 100 : 10,
        turns: 10,
      });
      const { producer, clock, update, decided } = await produce({ behave: slow }, { maxStaleness: 1, stale });
      await clock.advance(20);
      expect(producer.status).toMatchObject({ buffered: 3, openGroups: 1 });
      update(1);
      expect(decided).toEqual([]);
      update(2);
      await clock.advance(20);
      expect(decided.map(({ groupId, reason }) => [groupId, reason])).toEqual(
        ["1", "2", "3", "0"].map((index) => [`desk:train:${index}`, "stale"]),
      );
      const taking = producer.take(2);
      await clock.drain();
      expect(ids(await taking)).toEqual(stale === "drop" ? ["4", "5"] : ["1@2", "2@2"]);
      expect(producer.status.dropped).toEqual({ stale: 4 });
      await producer.cancel();
    }
  });

  it("keeps the exact version of each token, also in an episode that saw several", async () => {
    const { producer, clock, update } = await produce(
      { behave: () => ({ outcome: "completed", reward: 1, ms: 40, turns: 4 }), batchGroups: 1, groupSize: 1 },
      { maxStaleness: 3, bufferGroups: 1 },
    );
    await clock.advance(15);
    update(1);
    await clock.advance(10);
    update(2);
    const taking = producer.take(1);
    await clock.drain();
    const [group] = await taking;
    const [sample] = group!.episodes[0]!.result.samples;
    const span = (dispatch: string, reply: string, start: number) => ({
      dispatch,
      reply,
      start,
      end: start + 2,
      tokenCount: 2,
    });
    expect(sample!.weightRanges).toMatchObject([
      span("v0", "v0", 2),
      span("v0", "v1", 6),
      span("v1", "v2", 10),
      span("v2", "v2", 14),
    ]);
    expect(group!.staleness).toBe(2);
    await producer.cancel();
  });

  it.each([0, 1, 4])(
    "at maxStaleness %i drops nothing that is not stale when the server has weights before they are reported",
    async (maxStaleness) => {
      const behave = (one: Task, sample: number): Behaviour => {
        const random = createRandom(deriveSeed(7, one.id, sample));
        return { outcome: "completed", reward: 1, ms: 1 + random.integer(random.next() < 0.2 ? 120 : 20), turns: 4 };
      };
      const decided: { readonly record: GroupRecord; readonly version: number }[] = [];
      let reported = 0;
      const onGroup = (record: GroupRecord): number => decided.push({ record, version: reported });
      const { producer, clock, server, store } = await produce(
        { behave, batchGroups: 3, tasks: 100 },
        { maxStaleness, stale: "requeue", onGroup, concurrency: 3 },
      );
      const trained: ProducedGroup[] = [];
      for (let version = 1; version <= 8; version++) {
        const taking = producer.take(3);
        while (producer.status.handedOver < version * 3) await clock.advance(5);
        for (const group of await taking) {
          trained.push(group);
          expect(group.staleness).toBe(version - 1 - Math.min(...versionsOf(group)));
        }
        server.version = `v${version}`;
        // Groups begun now have weights that no report has named yet.
        await clock.advance(12);
        reported = version;
        producer.reportWeightVersion(server.version);
        // Dropped groups are recorded at once, some only after their running episodes have stopped.
        await clock.advance(0);
      }
      const oldest = new Map<string, number>();
      for (const episode of await list(store.episodes())) {
        for (const { dispatch } of episode.trajectory.turns.flatMap(({ weightSpans }) => weightSpans)) {
          const number = Number(dispatch?.slice(1));
          oldest.set(episode.groupId, Math.min(number, oldest.get(episode.groupId) ?? Infinity));
        }
      }
      const stale = decided.filter(({ record }) => record.reason === "stale");
      for (const { record, version } of stale) {
        expect(version - oldest.get(record.groupId)!).toBeGreaterThan(maxStaleness);
      }
      expect(trained).toHaveLength(24);
      await producer.cancel();
    },
  );

  it("a trainer that goes back to a checkpoint wastes nothing: what was begun for it waits until it is there again", async () => {
    const { producer, clock, decided, server } = await produce({}, { maxStaleness: 1 });
    const steps = async (from: number, to: number): Promise<void> => {
      for (let version = from; version <= to; version++) {
        server.version = `v${version}`;
        producer.reportWeightVersion(server.version);
        await clock.drain();
      }
    };
    for (let version = 1; version <= 6; version++) {
      const taking = producer.take(2);
      await clock.drain();
      await taking;
      await steps(version, version);
    }
    // The trainer goes back, and knows the batches of steps 3 to 5 already.
    await steps(4, 6);
    for (let version = 7; version <= 12; version++) {
      const taking = producer.take(2);
      await clock.drain();
      for (const { staleness } of await taking) expect(staleness).toBeLessThanOrEqual(1);
      await steps(version, version);
    }
    expect(producer.status).toMatchObject({ version: 12, handedOver: 24, dropped: {} });
    expect(decided.every(({ decision }) => decision === "kept")).toBe(true);
    await producer.cancel();
  });

  it("starts nothing while it is paused, and resumes where it was", async () => {
    const { producer, clock, log } = await produce({}, { concurrency: 2 });
    producer.pause();
    await clock.drain();
    expect(log.started).toHaveLength(2);
    expect(producer.status.state).toBe("paused");
    producer.continue();
    await clock.drain();
    expect(log.started).toHaveLength(8);
    await producer.cancel();
  });

  it("drains: open groups are run to their end, and what is there can be taken", async () => {
    const { producer, clock, log, decided } = await produce({ groupSize: 4 }, { concurrency: 2 });
    await clock.advance(5);
    producer.pause();
    const draining = producer.drain();
    await clock.drain();
    await draining;
    expect(producer.status).toMatchObject({ state: "ended", buffered: 1, runningEpisodes: 0 });
    expect(log.started).toHaveLength(4);
    expect(ids(await producer.take(3))).toEqual(["0"]);
    expect(await producer.take(3)).toEqual([]);
    expect(decided).toHaveLength(1);
    expect(clock.sleeping).toBe(0);
  });

  it("ends by itself when the tasks run out", async () => {
    const { producer, clock } = await produce({ tasks: 3, passes: 1 });
    const taking = producer.take(4);
    await clock.drain();
    expect(ids(await taking)).toEqual(["0", "1", "2"]);
    expect(producer.status.state).toBe("ended");
    await producer.drain();
  });

  it("cancels what runs, decides nothing more, and tells who waits that nothing comes", async () => {
    const { producer, clock, decided, store } = await produce();
    const taking = producer.take(3);
    await clock.advance(5);
    await producer.cancel();
    expect(await taking).toEqual([]);
    expect(producer.status).toMatchObject({ state: "cancelled", runningEpisodes: 0 });
    expect([decided, await list(store.episodes())]).toEqual([[], []]);
  });

  it("drops a group with one graded episode, which is no baseline, unless it has but one or its policy says otherwise", async () => {
    const behave = (_: Task, sample: number): Behaviour =>
      sample === 0 ? { outcome: "completed", reward: 1, ms: 1 } : { outcome: "failed", reward: null, ms: 1 };
    const reasons: (string | null | undefined)[] = [];
    for (const [groupSize, options] of [
      [2, {}],
      [2, { groups: { minGraded: 1 } }],
      [1, {}],
    ] as const) {
      const { producer, clock, decided } = await produce({ behave, groupSize, tasks: 1, passes: 1 }, options);
      const taking = producer.take(1);
      await clock.drain();
      await taking;
      reasons.push(decided[0]?.reason);
    }
    expect(reasons).toEqual(["too-few-graded", null, null]);
  });

  it("fails with the fault of a runner, a filter or the store, and so does every take", async () => {
    const filters = [
      () => {
        throw new Error("no such field");
      },
    ];
    const { producer, clock } = await produce({}, { groups: { filters } });
    const settled = expect(producer.take(1)).rejects.toThrow("no such field");
    await clock.drain();
    await settled;
    await producer.drain();
    expect(producer.status.state).toBe("failed");
    await expect(producer.take(1)).rejects.toThrow("no such field");
  });

  it("refuses numbers that mean nothing, and batches that could never come together", async () => {
    await expect(produce({}, { maxStaleness: -1 })).rejects.toThrow("maxStaleness is -1");
    await expect(produce({ batchGroups: 0 })).rejects.toThrow("batchGroups is 0");
    const { producer } = await produce({}, { maxStaleness: 1 });
    await expect(producer.take(5)).rejects.toThrow("a whole number from 1 to 4");
    await expect(producer.take(1, { signal: AbortSignal.abort(new Error("no more")) })).rejects.toThrow("no more");
    await producer.cancel();
  });

  it("gives up a take when its signal aborts, and loses no group by it", async () => {
    const { producer, clock } = await produce();
    const giveUp = new AbortController();
    const settled = expect(producer.take(1, { signal: giveUp.signal })).rejects.toThrow("enough");
    giveUp.abort(new Error("enough"));
    await settled;
    await clock.drain();
    expect(ids(await producer.take(2))).toEqual(["0", "1"]);
    await producer.cancel();
  });

  it("holds its bounds and accounts for everything, with random durations, updates, pauses and drains", async () => {
    const drawn = fc.record({
      seed: fc.nat(),
      maxStaleness: fc.nat(3),
      batchGroups: fc.integer({ min: 1, max: 4 }),
      groupSize: fc.integer({ min: 1, max: 4 }),
      concurrency: fc.integer({ min: 1, max: 12 }),
      stale: fc.constantFrom<"drop" | "requeue">("drop", "requeue"),
      replacements: fc.nat(1),
      trainMs: fc.integer({ min: 1, max: 60 }),
      steps: fc.integer({ min: 1, max: 5 }),
      pauses: fc.boolean(),
    });
    await fc.assert(
      fc.asyncProperty(drawn, async (one) => {
        const { seed, maxStaleness, batchGroups, groupSize, concurrency, stale, replacements } = one;
        const behave = (task: Task, sample: number): Behaviour => {
          const random = createRandom(deriveSeed(seed, task.id, sample));
          const ms = 1 + random.integer(random.next() < 0.1 ? 300 : 30);
          if (random.next() < 0.15) return { outcome: "failed", reward: null, ms, turns: 2 };
          return { outcome: "completed", reward: random.integer(2), ms, turns: 1 + random.integer(4) };
        };
        const groups = { filters: [dropZeroSignal()], replacements, minGraded: 1 };
        const made = await produce(
          { behave, groupSize, batchGroups },
          { maxStaleness, concurrency, stale, groups: groupSize === 1 ? { replacements } : groups },
        );
        const { producer, clock, log, store, decided, update } = made;
        const most = Math.max(2, maxStaleness + 1) * batchGroups;
        const check = (): void => {
          const { openGroups, buffered } = producer.status;
          expect(openGroups + buffered).toBeLessThanOrEqual(most);
        };
        let handedOver = 0;
        for (let version = 0; version < one.steps; version++) {
          const taking = producer.take(batchGroups);
          if (one.pauses) {
            producer.pause();
            await clock.advance(7);
            check();
            producer.continue();
          }
          for (let waited = 0; producer.status.handedOver < (version + 1) * batchGroups; waited++) {
            await clock.advance(20);
            check();
            // Every take resolves in bounded time.
            expect(waited).toBeLessThan(2_000);
          }
          const batch = await taking;
          for (const group of batch) {
            const oldest = Math.min(...versionsOf(group));
            expect(version - oldest).toBeLessThanOrEqual(maxStaleness);
            expect(group.staleness).toBeGreaterThanOrEqual(version - oldest);
          }
          handedOver += batch.length;
          await clock.advance(one.trainMs);
          update(version + 1);
          check();
        }
        const drained = producer.drain();
        await clock.drain();
        await drained;
        const rest = await producer.take(Math.min(most, (maxStaleness + 1) * batchGroups));
        handedOver += rest.length;
        expect(log.mostRunning).toBeLessThanOrEqual(concurrency);
        expect(producer.status).toMatchObject({ state: "ended", runningEpisodes: 0, openGroups: 0 });
        const kept = decided.filter(({ decision }) => decision === "kept");
        expect(kept).toHaveLength(handedOver);
        expect(new Set(decided.map(({ groupId }) => groupId)).size).toBe(decided.length);
        expect((await list(store.groups())).length).toBe(decided.length);
        expect((await list(store.episodes())).map(({ id }) => id).toSorted()).toEqual(log.started.toSorted());
        const buffered = producer.status.buffered;
        const episodes = decided.flatMap(({ episodeIds }) => episodeIds);
        expect(new Set(episodes).size).toBe(episodes.length);
        if (buffered === 0) expect(episodes.toSorted()).toEqual(log.started.toSorted());
        expect(clock.sleeping).toBe(0);
      }),
      { seed: 4, numRuns: isFull ? 80 : 8 },
    );
  });
});

describe("groupCapacity()", () => {
  it("is (maxStaleness + version + 1) * batchGroups - (accepted + running)", () => {
    expect(groupCapacity({ maxStaleness: 0, version: 0, batchGroups: 4, accepted: 1, running: 2 })).toBe(1);
    expect(groupCapacity({ maxStaleness: 2, version: 5, batchGroups: 4, accepted: 20, running: 12 })).toBe(0);
    expect(groupCapacity({ maxStaleness: Infinity, version: 0, batchGroups: 1, accepted: 9, running: 9 })).toBe(
      Infinity,
    );
  });
});

describe("WeightHistory", () => {
  const span = (dispatch: string | null, reply: string | null, tokenCount = 1) => ({ tokenCount, dispatch, reply });
  it("numbers versions as they are reported, and takes the older of dispatch and reply", () => {
    const history = new WeightHistory("a");
    history.report("b");
    history.report("b");
    history.report("c");
    expect(history.current).toBe(2);
    expect(history.oldest([span("c", "c"), span("b", "c")], 2)).toBe(1);
    expect(history.oldest([span("b", "c", 0), span("c", null)], 0)).toBe(2);
    // Unknown versions count as the version at which the group was begun.
    expect(history.oldest([span(null, "c")], 1)).toBe(1);
    expect(history.oldest([span("c", "default")], 1)).toBe(1);
    expect(history.oldest([span("default", "c")], 1)).toBe(1);
    expect(history.oldest([span(null, null)], 1)).toBe(1);
    expect(history.oldest([], 0)).toBe(2);
  });

  it("goes back with the trainer, and on from there", () => {
    const history = new WeightHistory("a");
    const numbers = ["b", "c", "d", "b", "b", "c", "d", "e"].map((version) => {
      history.report(version);
      return history.current;
    });
    expect(numbers).toEqual([1, 2, 3, 1, 1, 2, 3, 4]);
    expect(history.oldest([span("c", "e")], 4)).toBe(2);
  });

  it("takes what the engine had at first for another version when it is reported later", () => {
    const history = new WeightHistory("3");
    const numbers = ["3", "1", "2", "3"].map((version) => {
      history.report(version);
      return history.current;
    });
    expect(numbers).toEqual([0, 1, 2, 0]);
    const inherited = new WeightHistory("3");
    for (const version of ["1", "2", "3"]) inherited.report(version);
    expect(inherited.current).toBe(3);
  });
});
