// Guarantees of requested groups when disks fail, clients repeat requests, and the process stops at
// a bad moment.

import { expect, test } from "vitest";
import type { Episode, GroupRecord } from "../core/index.ts";
import type { LoggedRequest, RequestLog } from "./request-log.ts";
import { createTestService } from "./service.test-helper.ts";

type GroupAnswer = {
  readonly id: string;
  readonly status: string;
  readonly episodes: readonly { readonly id: string; readonly status: string; readonly outcome: string | null }[];
};

const waiting = { wait_seconds: 60 };
const key = (name: string) => ({ "idempotency-key": name });

/** A log whose writes end when the test decides. */
function heldLog() {
  const entries: LoggedRequest[] = [];
  const writes: { resolve(): void; reject(error: Error): void }[] = [];
  const log: RequestLog = {
    append: (entry) =>
      new Promise((resolve, reject) => {
        writes.push({ resolve: () => (entries.push(entry), resolve()), reject });
      }),
    close: async () => undefined,
  };
  return { log, entries, writes };
}

function recordedGroups() {
  const records: GroupRecord[] = [];
  const store = {
    append: async () => undefined,
    appendGroup: async ({ group }: { readonly group: GroupRecord }) => void records.push(group),
  };
  return { records, store };
}

test.each([
  [false, 0],
  [true, 1],
])("groups come to the store with rows where they are requested: %s", async (writeSamples, rows) => {
  const { sendJson, groups } = createTestService({ parts: { writeSamples } });
  const { id } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 1, group_size: 1, ...waiting });
  await expect.poll(() => groups.get(id)?.length).toBe(rows);
});

test("a key that comes again while its request is being written is answered once it is on disk", async () => {
  const { log, writes } = heldLog();
  const { send } = createTestService({ requests: log });
  const answers: number[] = [];
  const asks = [1, 2].map(async () => {
    const { status } = await send("/v1/groups", { task_index: 0, samples: 2 }, key("twice"));
    answers.push(status);
  });
  await new Promise((done) => setImmediate(done));
  expect([answers, writes.length]).toEqual([[], 1]);
  writes[0]?.resolve();
  await Promise.all(asks);
  expect(new Set(answers)).toEqual(new Set([200, 202]));
});

test("a request that could not be written was never taken, for all who asked", async () => {
  const { log, writes } = heldLog();
  const { send } = createTestService({ requests: log });
  const asks = [1, 2].map(() => send("/v1/groups", { task_index: 0, samples: 2 }, key("lost")));
  await new Promise((done) => setImmediate(done));
  writes[0]?.reject(new Error("the disk is full"));
  expect((await Promise.all(asks)).map(({ status }) => status)).toEqual([500, 500]);
  const again = send("/v1/groups", { task_index: 0, samples: 2, ...waiting }, key("lost"));
  await new Promise((done) => setImmediate(done));
  writes[1]?.resolve();
  expect((await again).status).toBe(200);
});

test("a group that left memory is found again, and its key plays and records nothing twice", async () => {
  const { records, store } = recordedGroups();
  const kept = new Map<string, Episode>();
  const { sendJson, send, calls } = createTestService({
    limits: { maxRemembered: 2 },
    kept,
    parts: { store: { ...store, append: async (episode) => void kept.set(episode.id, episode) } },
  });
  const request = { task_index: 1, samples: 2, ...waiting };
  const first = await sendJson<GroupAnswer>("/v1/groups", request, key("old"));
  await sendJson("/v1/groups", request, key("new"));
  await sendJson("/v1/groups", request, key("newer"));
  const before = calls();
  const [again, same] = await Promise.all([
    sendJson("/v1/groups", request, key("old")),
    sendJson("/v1/groups", request, key("old")),
  ]);
  expect([again, same]).toEqual([first, first]);
  expect((await send("/v1/groups", { ...request, task_index: 2 }, key("old"))).status).toBe(409);
  expect(await sendJson(`/v1/episodes/${first.episodes[1]?.id}`)).toEqual(first.episodes[1]);
  expect(calls()).toBe(before);
  expect(records.map(({ groupId }) => groupId)).toHaveLength(3);
});

test("a restart reads no ended group before somebody asks for it, and numbers of groups go on", async () => {
  const opened: LoggedRequest[] = [];
  const requests: RequestLog = { append: async (entry) => void opened.push(entry), close: async () => undefined };
  const one = createTestService({ requests });
  const ended = await one.sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 2, ...waiting }, key("a"));
  expect((await one.send("/v1/groups", { task_index: 10 ** 6, samples: 2 })).status).toBe(400);
  await one.sendJson("/v1/groups", { task_index: 1, samples: 2, ...waiting }, key("b"));
  // The record of a group may be written after the answer with its episodes.
  await one.service.close({ wait: true });
  expect(one.records.size).toBe(2);
  const finds: string[] = [];
  const { records, store } = recordedGroups();
  const two = createTestService({
    requests,
    parts: {
      store,
      archive: {
        find: async (id) => {
          finds.push(id);
          return one.kept.get(id) ?? null;
        },
      },
    },
  });
  await two.service.restore([...opened], { decided: one.records });
  expect(finds).toEqual([]);
  expect(await two.sendJson(`/v1/groups/${ended.id}`)).toEqual(ended);
  expect(finds).toEqual(ended.episodes.map(({ id }) => id));
  await two.sendJson("/v1/groups", { task_index: 2, samples: 2, ...waiting });
  await two.service.close({ wait: true });
  expect(opened.map((entry) => entry.type === "request" && entry.groupIndex)).toEqual([0, 1, 2]);
  expect(records.map(({ groupIndex }) => groupIndex)).toEqual([2]);
});

test("a group that cannot be recorded is told, and ends the process of nobody", async () => {
  const faults: unknown[] = [];
  const { sendJson, service } = createTestService({
    parts: {
      formats: new Map([["broken", () => [].map(() => null).concat(JSON.parse("{") as never)]]),
      onFault: (error) => faults.push(error),
    },
  });
  expect(await sendJson("/v1/groups", { task_index: 0, samples: 2, ...waiting })).toMatchObject({ status: "ended" });
  await service.close({ wait: true });
  expect(faults).toHaveLength(1);
});

test("the record of a group names only episodes that the store has", async () => {
  const { records, store } = recordedGroups();
  const { send, sendJson, gate, service } = createTestService({ limits: { concurrency: 1 }, parts: { store } });
  gate.close();
  const { id, episodes } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 3 });
  await send(`/v1/episodes/${episodes[2]?.id}/cancel`, {});
  gate.open();
  const group = await sendJson<GroupAnswer>(`/v1/groups/${id}?wait_seconds=60`);
  expect(group.episodes.map(({ outcome }) => outcome)).toEqual(["completed", "completed", "aborted"]);
  await service.close({ wait: true });
  expect(records).toMatchObject([{ episodeIds: [episodes[0]?.id, episodes[1]?.id] }]);
});

test("a group with an episode that could not be played is left to the next process", async () => {
  const { records, store } = recordedGroups();
  const { sendJson, service } = createTestService({
    parts: { store, runner: () => () => Promise.reject(new Error("the engine is not there")) },
  });
  const group = await sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 2, ...waiting });
  expect(group.episodes.map(({ outcome }) => outcome)).toEqual(["failed", "failed"]);
  await service.close({ wait: true });
  expect(records).toEqual([]);
});

test("closing finishes what runs, begins nothing, and calls nothing ended that the next process goes on with", async () => {
  const { sendJson, service, gate, kept } = createTestService({ limits: { concurrency: 1 } });
  gate.close();
  const { id } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 3 });
  const waits = sendJson<GroupAnswer>(`/v1/groups/${id}?wait_seconds=60`);
  gate.open();
  while ((await sendJson<GroupAnswer>(`/v1/groups/${id}`)).status === "waiting") await Promise.resolve();
  await service.close({ wait: true });
  const group = await waits;
  expect(group.episodes.map(({ status }) => status)).toEqual(["ended", "waiting", "waiting"]);
  expect(kept.size).toBe(1);
});

test("a paused service closes: nothing would end there before somebody continues it", async () => {
  const { sendJson, service, gate, kept } = createTestService();
  gate.close();
  const { id } = await sendJson<GroupAnswer>("/v1/groups", { task_index: 0, samples: 3 });
  await service.close({ wait: true });
  expect(await sendJson(`/v1/groups/${id}`)).toMatchObject({ status: "waiting" });
  expect(kept.size).toBe(0);
});

test("a group that can never fit is refused for good, one that fits an idle service is taken", async () => {
  const { send } = createTestService({ limits: { concurrency: 4, maxWaiting: 1 } });
  expect((await send("/v1/groups", { task_index: 0, samples: 6 })).status).toBe(400);
  expect((await send("/v1/groups", { task_index: 0, samples: 5, ...waiting })).status).toBe(200);
});

test("requests that are being written take their place among those that wait", async () => {
  const { log, writes } = heldLog();
  const { send } = createTestService({ requests: log, limits: { concurrency: 1, maxWaiting: 1 } });
  const asks = [1, 2, 3].map(() => send("/v1/groups", { task_index: 0, samples: 1 }));
  await new Promise((done) => setImmediate(done));
  for (const write of writes) write.resolve();
  expect((await Promise.all(asks)).map(({ status }) => status)).toEqual([202, 202, 429]);
});
