// A producer that resumes an earlier process, with the same result as a single process.

import { expect, test } from "vitest";
import type { GroupRecord, Task } from "../../core/index.ts";
import {
  type BegunGroup,
  createRolloutProducer,
  type EarlierProduction,
  type FinishedEpisode,
  type ProducerOptions,
  type ProducerParts,
  tasksInOrder,
} from "../index.ts";
import { type Behaviour, passing, runnerOf, taskset } from "../scripted-run.test-helper.ts";

type World = {
  readonly earlier?: Partial<EarlierProduction>;
  readonly behave?: (task: Task) => Behaviour;
  /** Version that the engine reports; `null` if it names none. */
  readonly version?: string | null;
  readonly appendGroup?: NonNullable<ProducerParts["store"]>["appendGroup"];
  /** Finished episodes of an earlier process, which are returned without running. */
  readonly finished?: Map<string, FinishedEpisode>;
};

function produce(world: World = {}, options: ProducerOptions = {}) {
  const { behave = passing, earlier, version = null, finished = new Map<string, FinishedEpisode>() } = world;
  const { runEpisode, clock, log } = runnerOf(behave, undefined, () => version);
  const records: GroupRecord[] = [];
  const begun: BegunGroup[] = [];
  const store: ProducerParts["store"] = {
    append: async () => undefined,
    appendGroup: async (decided) => {
      await world.appendGroup?.(decided);
      records.push(decided.group);
    },
  };
  const indexes = Array.from({ length: 20 }, (_, index) => index);
  const producer = createRolloutProducer(
    { taskset, tasks: tasksInOrder(indexes, { passes: Infinity }), groupSize: 2, seed: 1, batchGroups: 2 },
    {
      store,
      runEpisode: async (task, place) => {
        const kept = finished.get(place.episodeId);
        if (kept !== undefined) return { ...kept, origin: "stored" };
        const now = await runEpisode(task, place);
        finished.set(place.episodeId, now);
        return now;
      },
      ...(earlier === undefined
        ? {}
        : { earlier: { state: "running", begun: [], decided: new Map(), versions: [], ...earlier } }),
    },
    { clock, onBegin: (group) => begun.push(group), ...options },
  );
  return { producer, clock, log, records, begun, finished };
}

const decidedOf = (records: readonly GroupRecord[]) => new Map(records.map((record) => [record.groupId, record]));
const ids = (groups: readonly { readonly record: GroupRecord }[]): string[] =>
  groups.map(({ record }) => record.groupId.replace("desk:train:", ""));

test("a producer resumes: what was handed over counts, what was open comes back first, in its order", async () => {
  const one = produce({ version: "v0" }, { weightVersion: "v0", concurrency: 3 });
  await one.clock.drain();
  expect(ids(await one.producer.take(2))).toEqual(["0", "1"]);
  one.producer.reportWeightVersion("v1");
  // At this time some episodes have ended and some have not.
  await one.clock.advance(15);
  const two = produce(
    {
      version: "v1",
      finished: one.finished,
      earlier: { begun: one.begun, decided: decidedOf(one.records), versions: ["v1"] },
    },
    { weightVersion: "v0", concurrency: 3 },
  );
  await two.clock.drain();
  expect(two.producer.status).toMatchObject({ version: 1, handedOver: 2, openGroups: 0, buffered: 4 });
  await one.clock.drain();
  expect(one.producer.status).toMatchObject({ version: 1, handedOver: 2, openGroups: 0, buffered: 4 });
  expect([...one.begun.slice(one.begun.length - two.begun.length)]).toMatchObject(
    two.begun.map(({ groupId }) => ({ groupId })),
  );
  expect(ids(await two.producer.take(4))).toEqual(ids(await one.producer.take(4)));
  await two.producer.cancel();
  await one.producer.cancel();
});

test("tokens of an engine that names no versions are as old as the beginning of their group, in any process", async () => {
  const one = produce({}, { maxStaleness: 1 });
  await one.clock.drain();
  await one.producer.cancel();
  const { producer, clock, records } = produce(
    { finished: one.finished, earlier: { begun: one.begun, versions: ["1", "2"] } },
    { maxStaleness: 1 },
  );
  await clock.drain();
  expect(records.map(({ groupId, reason }) => [groupId, reason])).toEqual(
    one.begun.map(({ groupId }) => [groupId, "stale"]),
  );
  await producer.cancel();
});

test("a task is run again only once it is recorded why, and a later process runs those that were not", async () => {
  let record: () => void = () => undefined;
  const one = produce(
    { appendGroup: () => new Promise((resolve) => (record = () => resolve())) },
    { maxStaleness: 0, stale: "requeue" },
  );
  await one.clock.drain();
  one.producer.reportWeightVersion("1");
  await one.clock.drain();
  expect([one.begun.length, one.records.length]).toEqual([2, 0]);
  record();
  await one.clock.drain();
  expect(one.records).toHaveLength(1);
  const [stale] = one.records;
  const earlier = { begun: one.begun, decided: decidedOf(one.records), versions: ["1"] };
  const two = produce({ finished: one.finished, earlier }, { maxStaleness: 0, stale: "requeue" });
  await two.clock.drain();
  expect(two.begun.map(({ groupId, isRequeued }) => [groupId, isRequeued])).toContainEqual([
    `${stale?.groupId}@2`,
    true,
  ]);
  // Each group that was too old is requeued once.
  expect(two.begun.filter(({ isRequeued }) => isRequeued)).toHaveLength(2);
  const again = { begun: [...one.begun, ...two.begun], decided: decidedOf([...one.records, ...two.records]) };
  const three = produce(
    { finished: two.finished, earlier: { ...again, versions: ["1"] } },
    { maxStaleness: 0, stale: "requeue" },
  );
  await three.clock.drain();
  expect(three.begun).toEqual([]);
  for (const { producer } of [two, three]) await producer.cancel();
  record();
});

test.each(["paused", "draining", "cancelled"] as const)("a producer that was %s is so again", async (state) => {
  const one = produce({}, { concurrency: 3 });
  await one.clock.advance(15);
  const open = one.begun.length;
  const { producer, clock, begun } = produce(
    { finished: one.finished, earlier: { state, begun: one.begun, decided: decidedOf(one.records) } },
    { concurrency: 3 },
  );
  await clock.drain();
  expect(begun).toEqual([]);
  const buffered = state === "cancelled" ? 0 : open;
  expect(producer.status).toMatchObject({ state: state === "draining" ? "ended" : state, buffered, openGroups: 0 });
  producer.continue();
  await clock.drain();
  expect(begun.length > 0).toBe(state === "paused");
  await producer.cancel();
  await one.producer.cancel();
});

test("what is handed over is reported before it is recorded, and a callback that fails stops the producer", async () => {
  const { producer, clock, records } = produce();
  await clock.drain();
  const told: unknown[] = [];
  const groups = await producer.take(2, {
    onHandedOver: (taken) => {
      expect(records).toEqual([]);
      told.push(...taken);
    },
  });
  expect(told).toEqual(groups.map(({ record, staleness }) => ({ groupId: record.groupId, staleness })));
  const refused = producer.take(1, { onHandedOver: () => Promise.reject(new Error("the disk is full")) });
  await expect(refused).rejects.toThrow("the disk is full");
  expect(producer.status.state).toBe("failed");
  expect(records).toHaveLength(2);
});
