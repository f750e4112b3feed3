// Producers over HTTP: valid and invalid requests of trainers.

import { describe, expect, test } from "vitest";
import type { LoggedRequest, RequestLog } from "./request-log.ts";
import { createTestService, type TestService } from "./service.test-helper.ts";

type ProducerAnswer = {
  readonly id: string;
  readonly state: string;
  readonly version: number;
  readonly batches: number;
  readonly handed_over: number;
  readonly running_episodes: number;
  readonly open_groups: number;
  readonly buffered: number;
};
type GroupAnswer = {
  readonly id: string;
  readonly task_index: number;
  readonly staleness: number;
  readonly status: string;
  readonly episodes: readonly {
    readonly id: string;
    readonly seed: number;
    readonly reward: number | null;
    readonly outcome: string;
  }[];
};
type BatchAnswer = {
  readonly status: string;
  readonly groups: readonly GroupAnswer[];
  readonly producer: ProducerAnswer;
};
type ErrorAnswer = { readonly error: { readonly code: string; readonly message: string } };

const synchronous = { samples: 2, batch_groups: 2, max_staleness: 0, weight_version: "3" };
const waiting = { wait_seconds: 60 };

const start = async ({ sendJson }: TestService, body: unknown, key?: string): Promise<string> => {
  const headers = key === undefined ? {} : { "idempotency-key": key };
  return (await sendJson<ProducerAnswer>("/v1/producers", body, headers)).id;
};
const batchOf = ({ sendJson }: TestService, id: string, number: number, body: unknown = waiting) =>
  sendJson<BatchAnswer>(`/v1/producers/${id}/batches/${number}`, body);
const steer = ({ sendJson }: TestService, id: string, action: string) =>
  sendJson<ProducerAnswer>(`/v1/producers/${id}/${action}`, "");
const tasksOf = ({ groups }: BatchAnswer): number[] => groups.map(({ task_index }) => task_index);
const report = async ({ sendJson, weights }: TestService, version: string): Promise<void> => {
  weights.version = version;
  await sendJson("/v1/weights", { version });
};

describe("batches", () => {
  test("are numbered, the same again for the same number, and have their rows", async () => {
    const tested = createTestService();
    const { send, sendJson, groups, records } = tested;
    const answer = await send("/v1/producers", synchronous);
    expect(answer.status).toBe(201);
    const { id } = (await answer.json()) as ProducerAnswer;
    const first = await batchOf(tested, id, 0);
    expect(first).toMatchObject({ number: 0, status: "ready", producer: { id, batches: 1, handed_over: 2 } });
    expect(tasksOf(first)).toEqual([0, 1]);
    expect(new Set(first.groups.flatMap(({ episodes }) => episodes.map(({ seed }) => seed))).size).toBe(4);
    expect((await batchOf(tested, id, 0)).groups).toEqual(first.groups);
    for (const { staleness, ...group } of first.groups) {
      expect([staleness, group.id]).toEqual([0, expect.stringMatching(/^[\w-]+$/)]);
      const { samples } = await sendJson<{ samples: unknown[] }>(`/v1/groups/${group.id}/samples`);
      expect(groups.get(group.id)?.map((line) => JSON.parse(line) as unknown)).toEqual(samples);
      expect(records.get(group.id)).toMatchObject({ decision: "kept", reason: null });
      expect(samples).toHaveLength(2);
      expect(await sendJson(`/v1/groups/${group.id}`)).toEqual(group);
      const [one] = group.episodes;
      expect(await sendJson(`/v1/episodes/${one?.id}`)).toEqual(one);
      expect(await (await send(`/v1/episodes/${one?.id}/events`)).text()).toContain("event: ended");
    }
    // Synchronous: the next batch waits for the weights that the first one produces.
    expect(await batchOf(tested, id, 1, {})).toMatchObject({ status: "waiting", groups: [] });
    expect((await send(`/v1/producers/${id}/batches/1`, {})).status).toBe(202);
    await report(tested, "4");
    expect(await sendJson(`/v1/producers/${id}`)).toMatchObject({ version: 1, weight_version: "4" });
    expect(tasksOf(await batchOf(tested, id, 1))).toEqual([2, 3]);
    await tested.service.close({ wait: false });
  });

  test("are one batch for all who wait for a number, however many groups they send for", async () => {
    const tested = createTestService();
    const id = await start(tested, { ...synchronous, max_staleness: 2 });
    const [two, three, again] = await Promise.all([
      batchOf(tested, id, 0),
      batchOf(tested, id, 0, { ...waiting, groups: 3 }),
      batchOf(tested, id, 0, { ...waiting, groups: 1 }),
    ]);
    expect(two.groups).toHaveLength(2);
    expect([three.groups, again.groups]).toEqual([two.groups, two.groups]);
    expect((await batchOf(tested, id, 1, { ...waiting, groups: 3 })).groups).toHaveLength(3);
    await tested.service.close({ wait: false });
  });

  test("a client that waits in vain or leaves takes nothing with it, and whoever asks next may send for another number of groups", async () => {
    const tested = createTestService();
    tested.gate.close();
    const id = await start(tested, synchronous);
    expect(await batchOf(tested, id, 0, { wait_seconds: 0.01 })).toMatchObject({ status: "waiting" });
    const leaving = new AbortController();
    const left = tested.service.handle(
      new Request(`http://service/v1/producers/${id}/batches/0`, {
        method: "POST",
        body: JSON.stringify(waiting),
        headers: { "content-type": "application/json" },
        signal: leaving.signal,
      }),
    );
    await new Promise((done) => setImmediate(done));
    leaving.abort();
    expect((await left).status).toBe(202);
    tested.gate.open();
    expect((await batchOf(tested, id, 0, { ...waiting, groups: 1 })).groups).toHaveLength(1);
    await tested.service.close({ wait: false });
  });

  test("end when the tasks do, with those that are left", async () => {
    const tested = createTestService();
    const id = await start(tested, { ...synchronous, max_staleness: 1, tasks: [4, 2, 4], passes: 1 });
    expect(await batchOf(tested, id, 0)).toMatchObject({ status: "ready" });
    const last = await batchOf(tested, id, 1);
    expect([last.status, last.groups.length, last.producer.state]).toEqual(["ended", 1, "ended"]);
    expect((await batchOf(tested, id, 1)).status).toBe("ended");
    for (const number of [2, 2]) {
      expect(await batchOf(tested, id, number)).toMatchObject({
        status: "ended",
        groups: [],
        producer: { batches: 2 },
      });
    }
    // Repeated tasks are run with different seeds.
    const all = [...(await batchOf(tested, id, 0)).groups, ...last.groups];
    expect(all.map(({ task_index }) => task_index).toSorted((left, right) => left - right)).toEqual([2, 4, 4]);
    expect(new Set(all.flatMap(({ episodes }) => episodes.map(({ seed }) => seed))).size).toBe(6);
    await tested.service.close({ wait: false });
  });

  test.each([
    ["batches/1", {}, 409, "the next one is batch 0; request that one, or an earlier one again"],
    ["batches/999999999", {}, 409, "Cannot return batch 999999999"],
    ["batches/1e9", {}, 400, "numbered 0, 1, 2"],
    ["batches/-1", {}, 400, "numbered 0, 1, 2"],
    ["batches/NaN", {}, 400, "numbered 0, 1, 2"],
    ["batches/00", {}, 400, "numbered 0, 1, 2"],
    ["batches/..%2F0", {}, 400, "numbered 0, 1, 2"],
    ["batches/0", { groups: 0 }, 400, 'field "groups"'],
    ["batches/0", { groups: 3 }, 400, 'field "groups": it is 3, and at most 2 may ever wait'],
    ["batches/0", { groups: 1e9 }, 400, 'field "groups"'],
    ["batches/0", { wait_seconds: -1 }, 400, 'field "wait_seconds"'],
    ["batches/0", '{"wait_seconds":NaN}', 400, "not JSON"],
    ["batches/0", { number: 0 }, 400, "number"],
    ["rewind", "", 404, "/openapi.json"],
  ])("%s with %j is refused", async (path, body, status, message) => {
    const tested = createTestService();
    const id = await start(tested, synchronous);
    const answer = await tested.send(`/v1/producers/${id}/${path}`, body);
    const { error } = (await answer.json()) as ErrorAnswer;
    expect([answer.status, error.message]).toEqual([status, expect.stringContaining(message)]);
    await tested.service.close({ wait: false });
  });
});

describe("a producer", () => {
  test("is the same for the same key, and its luck follows its key or its seed", async () => {
    const tested = createTestService();
    const id = await start(tested, synchronous, "a");
    expect(await start(tested, synchronous, "a")).toBe(id);
    const other = await tested.send("/v1/producers", { ...synchronous, samples: 3 }, { "idempotency-key": "a" });
    expect([other.status, await other.json()]).toMatchObject([409, { error: { code: "key-reused" } }]);
    const seedsOf = async (body: unknown, key: string): Promise<number[]> => {
      const { groups } = await batchOf(tested, await start(tested, body, key), 0);
      return groups.flatMap(({ episodes }) => episodes.map(({ seed }) => seed));
    };
    expect(await seedsOf(synchronous, "a")).not.toEqual(await seedsOf(synchronous, "b"));
    const seeded = { ...synchronous, seed: 5 };
    expect(await seedsOf(seeded, "c")).toEqual(await seedsOf(seeded, "d"));
    await tested.service.close({ wait: false });
  });

  test("pauses, resumes, drains and is cancelled", async () => {
    const tested = createTestService({ limits: { concurrency: 1 } });
    const id = await start(tested, { ...synchronous, max_staleness: 1 });
    expect(await steer(tested, id, "pause")).toMatchObject({ state: "paused" });
    // The running episode ends, and no other begins.
    while ((await tested.sendJson<ProducerAnswer>(`/v1/producers/${id}`)).running_episodes > 0) await Promise.resolve();
    const calls = tested.calls();
    expect(await batchOf(tested, id, 0, { wait_seconds: 0.01 })).toMatchObject({ status: "waiting" });
    expect(tested.calls()).toBe(calls);
    expect(await steer(tested, id, "continue")).toMatchObject({ state: "running" });
    expect(await batchOf(tested, id, 0)).toMatchObject({ status: "ready" });
    expect((await steer(tested, id, "drain")).state).toMatch(/draining|ended/);
    const rest: BatchAnswer[] = [];
    for (let number = 1; rest.at(-1)?.status !== "ended"; number++) rest.push(await batchOf(tested, id, number));
    expect(rest.at(-1)?.producer).toMatchObject({ state: "ended", open_groups: 0, buffered: 0 });
    expect(await steer(tested, id, "continue")).toMatchObject({ state: "ended" });

    tested.gate.close();
    const second = await start(tested, synchronous);
    const waits = batchOf(tested, second, 0);
    await new Promise((done) => setImmediate(done));
    expect(await steer(tested, second, "cancel")).toMatchObject({ state: "cancelled" });
    expect(await waits).toMatchObject({ status: "ended", groups: [], producer: { state: "cancelled" } });
    tested.gate.open();
    expect(await tested.sendJson(`/v1/groups/${second}-0-1?wait_seconds=60`)).toMatchObject({
      status: "ended",
      episodes: [{ outcome: "aborted" }, { outcome: "aborted" }],
    });
    await tested.service.close({ wait: true });
    // Episodes that never began are not recorded.
    expect([...tested.kept.keys()].filter((episodeId) => episodeId.startsWith(second))).toEqual([]);
  });

  test("hands a batch over that is being written while it is cancelled, and records it", async () => {
    let write: () => void = () => undefined;
    const writing = new Promise<void>((begun) => {
      write = begun;
    });
    let finish: () => void = () => undefined;
    const requests: RequestLog = {
      append: async ({ type }) => {
        if (type !== "batch") return;
        write();
        await new Promise<void>((resolve) => (finish = resolve));
      },
      close: async () => undefined,
    };
    const tested = createTestService({ requests });
    const id = await start(tested, synchronous);
    const taking = batchOf(tested, id, 0);
    await writing;
    expect(await steer(tested, id, "cancel")).toMatchObject({ state: "cancelled" });
    await new Promise((done) => setImmediate(done));
    finish();
    const { status, groups } = await taking;
    expect([status, groups.map((group) => tested.records.get(group.id)?.decision)]).toEqual([
      "ready",
      ["kept", "kept"],
    ]);
    expect(await batchOf(tested, id, 1)).toMatchObject({ status: "ended", groups: [] });
    await tested.service.close({ wait: true });
  });

  test("drops groups with the reason that its filters have, and writes no rows of them", async () => {
    const tested = createTestService();
    const id = await start(tested, {
      samples: 3,
      batch_groups: 3,
      seed: 1,
      filters: ["zero-signal", "reward-range:0.1-0.9"],
      passes: 1,
      tasks: Array.from({ length: 30 }, (_, index) => index),
    });
    const { groups, producer } = await batchOf(tested, id, 0);
    for (const { episodes } of groups) expect(new Set(episodes.map(({ reward }) => reward)).size).toBeGreaterThan(1);
    const dropped = [...tested.records.values()].filter(({ decision }) => decision === "dropped");
    expect(dropped.length).toBeGreaterThan(0);
    expect(producer).toMatchObject({ dropped: { "zero-signal": expect.any(Number) as unknown } });
    for (const { groupId, reason } of dropped) {
      expect([reason, tested.groups.get(groupId)]).toEqual(["zero-signal", []]);
      expect(await tested.sendJson(`/v1/groups/${groupId}`)).toMatchObject({ status: "ended", samples: 3 });
    }
    await tested.service.close({ wait: false });
  });

  test("that failed says why, without secrets, and what it had is left to the next process", async () => {
    const tested = createTestService({
      redact: (text) => text.replaceAll("sesame", "***"),
      parts: { runner: () => () => Promise.reject(new Error("the server refuses the key sesame.")) },
    });
    const id = await start(tested, synchronous);
    for (const number of [0, 0]) {
      const refused = await tested.send(`/v1/producers/${id}/batches/${number}`, waiting);
      expect([refused.status, await refused.json()]).toMatchObject([
        500,
        {
          error: { code: "producer-failed", message: expect.stringContaining("refuses the key ***. Start") as unknown },
        },
      ]);
    }
    expect(await tested.sendJson(`/v1/producers/${id}`)).toMatchObject({ state: "failed" });
    expect([tested.records.size, tested.kept.size]).toEqual([0, 0]);
    await tested.service.close({ wait: true });
  });

  test("is never there when it could not be written", async () => {
    let isFull = true;
    const entries: LoggedRequest[] = [];
    const requests: RequestLog = {
      append: async (entry) => {
        if (isFull) throw new Error("no space left");
        entries.push(entry);
      },
      close: async () => undefined,
    };
    const tested = createTestService({ requests });
    expect((await tested.send("/v1/producers", synchronous, { "idempotency-key": "a" })).status).toBe(500);
    expect((await tested.send("/v1/weights", { version: "9" })).status).toBe(500);
    expect(await tested.sendJson("/v1/info")).toMatchObject({ weight_version: null });
    isFull = false;
    const { weight_version: _, ...body } = synchronous;
    const id = await start(tested, body, "a");
    expect(entries[0]).toMatchObject({ type: "producer", producerId: id, weightVersion: null });
    await tested.service.close({ wait: false });
  });

  test("cannot be stopped by the cancelling of its groups one by one", async () => {
    const tested = createTestService();
    const id = await start(tested, synchronous);
    const { groups } = await batchOf(tested, id, 0);
    for (const path of [`groups/${groups[0]?.id}`, `episodes/${groups[0]?.episodes[0]?.id}`]) {
      const refused = await tested.send(`/v1/${path}/cancel`, "");
      expect([refused.status, await refused.json()]).toMatchObject([409, { error: { code: "of-a-producer" } }]);
    }
    await tested.service.close({ wait: false });
  });

  test.each<[unknown, string]>([
    [{ batch_groups: 2 }, 'field "samples"'],
    [{ samples: 2 }, 'field "batch_groups"'],
    [{ ...synchronous, samples: 1025 }, 'field "samples"'],
    [{ ...synchronous, batch_groups: 1e9 }, 'field "batch_groups"'],
    [{ ...synchronous, max_staleness: -1 }, 'field "max_staleness"'],
    [{ ...synchronous, buffer_groups: 0 }, 'field "buffer_groups"'],
    [{ ...synchronous, tasks: [] }, 'field "tasks"'],
    [{ ...synchronous, tasks: [0, 10 ** 9] }, "has no task 1000000000"],
    [{ ...synchronous, split: "dev" }, 'has no split "dev"'],
    [{ ...synchronous, split: "__proto__" }, 'has no split "__proto__"'],
    [{ ...synchronous, min_group: 3 }, 'field "min_group": it is 3, and a group has 2 episodes'],
    [{ ...synchronous, samples: 1, filters: ["zero-signal"] }, 'field "filters": zero-signal compares'],
    [{ ...synchronous, filters: ["reward-range:0.9-0.1"] }, 'field "filters": the filters are'],
    [{ ...synchronous, filters: ["./filter.ts"] }, 'field "filters": the filters are'],
    [{ ...synchronous, group_timeout_seconds: 1e9 }, 'field "group_timeout_seconds"'],
    [{ ...synchronous, group_cutoff: "drop" }, 'field "group_cutoff"'],
    [{ ...synchronous, batchGroups: 2 }, "batchGroups"],
    ['{"samples":2,"batch_groups":1e999}', 'field "batch_groups"'],
  ])("%j is refused", async (body, message) => {
    const { send } = createTestService();
    const answer = await send("/v1/producers", body);
    const { error } = (await answer.json()) as ErrorAnswer;
    expect([answer.status, error.code, error.message]).toEqual([400, "bad-request", expect.stringContaining(message)]);
  });

  test.each(["nothing", "..%2F..%2Fetc", "p0-0-1", "%00"])("%s is unknown", async (name) => {
    const { send } = createTestService();
    for (const path of ["", "/pause", "/batches/0"]) {
      expect((await send(`/v1/producers/${name}${path}`, path === "" ? undefined : {})).status).toBe(404);
    }
    expect((await send(`/v1/groups/${name}`)).status).toBe(404);
  });
});

describe("beside requests", () => {
  test("a producer does not use up what may wait, and requests get their turn", async () => {
    const tested = createTestService({ limits: { concurrency: 2, maxWaiting: 2 } });
    tested.gate.close();
    const id = await start(tested, { samples: 8, batch_groups: 8, max_staleness: 4 });
    // The producer has both permits, and two more episodes in the queue.
    expect(await tested.sendJson("/v1/info")).toMatchObject({ running: 2, waiting: 0 });
    const asked = await tested.sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 2 });
    expect((await tested.send("/v1/groups", { task_index: 0, samples: 1 })).status).toBe(429);
    const second = await start(tested, { samples: 8, batch_groups: 8 });
    expect(await tested.sendJson("/v1/info")).toMatchObject({ running: 2, waiting: 4 });
    tested.gate.open();
    expect(await tested.sendJson(`/v1/groups/${asked.id}?wait_seconds=60`)).toMatchObject({ status: "ended" });
    for (const one of [id, second]) await steer(tested, one, "cancel");
    await tested.service.close({ wait: true });
  });

  test("more producers than anybody needs are refused until some have ended", async () => {
    const tested = createTestService();
    tested.gate.close();
    const ids = await Promise.all(Array.from({ length: 64 }, () => start(tested, synchronous)));
    expect((await tested.send("/v1/producers", synchronous)).status).toBe(429);
    await steer(tested, ids[0] ?? "", "cancel");
    expect((await tested.send("/v1/producers", synchronous)).status).toBe(201);
    await tested.service.close({ wait: false });
  });

  test("their groups are unloaded like others, and are the same when they are requested", async () => {
    const tested = createTestService({ limits: { maxRemembered: 4 } });
    const id = await start(tested, { ...synchronous, max_staleness: 8, buffer_groups: 4 });
    const first = await batchOf(tested, id, 0);
    for (let number = 1; number < 6; number++) await batchOf(tested, id, number);
    expect((await batchOf(tested, id, 0)).groups).toEqual(first.groups);
    for (const { staleness: _, ...group } of first.groups) {
      expect(await tested.sendJson(`/v1/groups/${group.id}`)).toEqual(group);
    }
    await tested.service.close({ wait: false });
  });
});

describe("closing", () => {
  test.each([true, false])("answers waiting requests, and decides nothing (wait: %s)", async (wait) => {
    const tested = createTestService({ limits: { concurrency: 1 } });
    tested.gate.close();
    const id = await start(tested, { ...synchronous, filters: ["zero-signal"] });
    const waits = tested.send(`/v1/producers/${id}/batches/0`, waiting);
    await new Promise((done) => setImmediate(done));
    tested.gate.open();
    await tested.service.close({ wait });
    const answer = await waits;
    expect([answer.status, await answer.json()]).toMatchObject([503, { error: { code: "closing" } }]);
    expect(tested.records.size).toBe(0);
    expect((await tested.send("/v1/producers", synchronous)).status).toBe(503);
    expect((await tested.send(`/v1/producers/${id}/pause`, "")).status).toBe(503);
    // Weights that are reported now are for the next process.
    expect((await tested.send("/v1/weights", { version: "9" })).status).toBe(200);
    expect(await tested.sendJson(`/v1/producers/${id}`)).toMatchObject({ version: 0 });
  });
});
