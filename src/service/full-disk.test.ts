// A service whose disk is full: clients get an error and a retry delay, no accepted request is lost
// or fails because of it, and everything resumes once there is space. The store is a real one, on a
// simulated disk that can be filled.

import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { createFileRunStore, Disk, type FileRunStore, openRunFolder } from "../store/index.ts";
import { limitDisk, type LimitedDisk } from "../../tests/limited-disk.ts";
import { openRequestLog, type RequestLog } from "./request-log.ts";
import { createTestService } from "./service.test-helper.ts";

const patience = { waitMs: Infinity, waitsForAll: true };
let root = "";
let made = 0;
let disk: LimitedDisk;
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "service-disk-"));
  disk = limitDisk(root);
});
afterEach(() => {
  disk.room = Infinity;
});
afterAll(async () => {
  disk.restore();
  await rm(root, { recursive: true });
});

const later = (ms: number): Promise<void> => new Promise((end) => setTimeout(end, ms));

type Answer = {
  readonly id: string;
  readonly status: string;
  readonly episodes: readonly { readonly id: string; readonly outcome: string }[];
};

async function open() {
  const folder = join(root, String(made++));
  const store: FileRunStore = createFileRunStore(folder, { patience });
  await store.begin(new Map());
  const path = join(folder, "requests.jsonl");
  const { log } = await openRequestLog(path, store.disk);
  const service = createTestService({
    requests: log,
    parts: { store, disk: store.disk, archive: { find: (id) => store.kept(id) } },
  });
  const close = async (): Promise<void> => {
    store.disk.giveUp();
    await service.service.close({ wait: false });
    await log.close();
    await store.close(new Map());
  };
  return { ...service, folder, store, path, close };
}

/** Fills the disk, and waits until the store has detected it. */
async function fill(store: FileRunStore): Promise<void> {
  disk.room = 0;
  while (store.disk.fault === null) await later(1);
}

test("requests get 503 with the reason, health tells it, and the same request is served once there is room", async () => {
  const { send, sendJson, store, close, service } = await open();
  expect(await sendJson("/health")).toEqual({ status: "open" });
  disk.room = 0;
  const key = { "idempotency-key": "one" };
  const wanted = ["/v1/groups", { task_index: 0, samples: 2, wait_seconds: 30 }, key] as const;
  for (let again = 0; again < 3; again++) {
    const refused = await send(...wanted);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
    const { error } = (await refused.json()) as { readonly error: { readonly code: string; readonly message: string } };
    expect(error.code).toBe("store-unavailable");
    expect(error.message).toContain("make room on the disk");
  }
  const producer = await send("/v1/producers", { samples: 2, batch_groups: 1 });
  expect(producer.status).toBe(503);
  for (const path of ["/health", "/healthz", "/ready", "/readyz"]) {
    const health = await send(path);
    expect([health.status, health.headers.get("retry-after")]).toEqual([503, "5"]);
    const reason = expect.stringContaining("make room on the disk") as string;
    expect(await health.json()).toEqual({ status: "degraded", reason });
  }
  expect(service.counts).toEqual({ running: 0, waiting: 0 });
  disk.room = Infinity;
  expect(await sendJson("/health")).toEqual({ status: "open" });
  const answer = await send(...wanted);
  expect(answer.status).toBe(200);
  expect(((await answer.json()) as Answer).episodes.map(({ outcome }) => outcome)).toEqual(["completed", "completed"]);
  expect(store.disk.fault).toBe(null);
  await close();
});

test("episodes in flight wait, their requests are told so, and end as if nothing had been", async () => {
  const calm = await open();
  const key = { "idempotency-key": "one" };
  const wanted = ["/v1/groups", { task_index: 3, samples: 4, wait_seconds: 30 }, key] as const;
  const expected = await calm.sendJson<Answer>(...wanted);
  await calm.close();

  const { send, sendJson, store, gate, folder, close, service } = await open();
  gate.close();
  // The same key identifies the same group in every process.
  const { id } = expected;
  const waiting = send(...wanted);
  while (service.counts.running === 0) await later(1);
  const asking = send(`/v1/groups/${id}?wait_seconds=30`);
  disk.room = 3000;
  gate.open();
  while (store.disk.fault === null) await later(1);
  for (const answer of await Promise.all([waiting, asking])) expect(answer.status).toBe(503);
  expect(await sendJson<Answer>(`/v1/groups/${id}`)).toMatchObject({ status: "running" });
  disk.room = Infinity;
  expect(await sendJson(...wanted)).toEqual(expected);
  await close();
  const ids: string[] = [];
  for await (const episode of openRunFolder(folder).episodes()) {
    ids.push(episode.id);
    expect(episode.outcome).toBe("completed");
  }
  expect(ids.toSorted()).toEqual(expected.episodes.map((one) => one.id).toSorted());
});

test("a producer does not fail by it: its batch is refused while there is no room, and handed over afterwards", async () => {
  const { send, sendJson, store, close } = await open();
  const { id } = await sendJson<Answer>("/v1/producers", { samples: 2, batch_groups: 1, max_staleness: 0 });
  const take = (): Promise<Response> => send(`/v1/producers/${id}/batches/0`, { wait_seconds: 30 });
  await fill(store);
  expect((await take()).status).toBe(503);
  disk.room = Infinity;
  const batch = await take();
  expect(batch.status).toBe(200);
  expect(await batch.json()).toMatchObject({ status: "ready" });
  expect(await sendJson(`/v1/producers/${id}`)).not.toMatchObject({ state: "failed" });
  await close();
});

test("a service that is closed while its disk is full suspends what waits, and the next one resumes it", async () => {
  const { send, sendJson, store, folder, service } = await open();
  disk.room = 3000;
  const accepted = send("/v1/groups", { task_index: 3, samples: 4 }, { "idempotency-key": "one" });
  while (store.disk.fault === null) await later(1);
  await accepted;
  store.disk.giveUp();
  await service.close({ wait: false });
  await expect(store.close(new Map())).rejects.toThrow("make room on the disk");
  expect(await sendJson("/v1/info").catch(() => null)).toMatchObject({ status: "draining" });
  // No episode that failed because of the disk was stored.
  disk.room = Infinity;
  for await (const { outcome } of openRunFolder(folder).episodes()) expect(outcome).toBe("completed");
});

test("a log that could not be written is whole, whatever was refused in the middle of a line", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.boolean(), fc.integer({ min: 0, max: 200 })), { minLength: 1, maxLength: 12 }),
      async (steps) => {
        const path = join(root, `log-${made++}.jsonl`);
        disk.room = Infinity;
        const { log } = await openRequestLog(path, new Disk(path, patience));
        const accepted: string[] = [];
        const pending: Promise<unknown>[] = [];
        for (const [index, [waits, room]] of steps.entries()) {
          disk.room = room;
          const groupId = `g${index}`;
          const appended = append(log, groupId, waits).then((isKept) => isKept && accepted.push(groupId));
          if (waits) pending.push(appended);
          else await appended;
        }
        disk.room = Infinity;
        await Promise.all(pending);
        await log.close();
        const { log: again, earlier } = await openRequestLog(path);
        expect(earlier.map((line) => ("groupId" in line ? line.groupId : "")).toSorted()).toEqual(accepted.toSorted());
        expect((await readFile(path, "utf8")).endsWith("\n") || accepted.length === 0).toBe(true);
        await again.close();
      },
    ),
    { numRuns: 25 },
  );
}, 60_000);

/** Resolves to true if the entry was kept. Appends that wait are always kept. */
async function append(log: RequestLog, groupId: string, waits: boolean): Promise<boolean> {
  const appending = log.append({ type: "cancel", groupId, episodeIds: [] }, { waits });
  if (waits) return appending.then(() => true);
  return appending.then(
    () => true,
    () => false,
  );
}
