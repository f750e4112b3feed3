import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import * as fc from "fast-check";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Episode, GroupRecord } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { Disk } from "./disk.ts";
import { limitDisk, type LimitedDisk } from "../../tests/limited-disk.ts";
import { createFileRunStore, type FileRunStore, openRunFolder, resumeFileRunStore } from "./index.ts";
import { sampleEpisode } from "./sample-episode.test-helper.ts";

const manifest: JsonObject = new Map([["format", 4]]);
const patience = { waitMs: Infinity };
let root = "";
let made = 0;
let disk: LimitedDisk;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "full-disk-"));
  disk = limitDisk(root);
});
afterEach(() => {
  disk.room = Infinity;
  disk.code = "ENOSPC";
});
afterAll(async () => {
  disk.restore();
  await rm(root, { recursive: true });
});

const newFolder = (): string => join(root, String(made++));
const later = (ms: number): Promise<void> => new Promise((end) => setTimeout(end, ms));
const groupOf = ({ id, task }: Episode): GroupRecord => ({
  groupId: `of ${id}`,
  taskId: task.id,
  groupIndex: 0,
  decision: "kept",
  reason: null,
  episodeIds: [id],
  rewards: [1],
});

/** Stores one episode like a scheduler. Calls back when a record is acknowledged. */
async function play(store: FileRunStore, id: string, onKept: (what: string) => void = () => undefined): Promise<void> {
  const episode = sampleEpisode(id);
  for (const event of episode.events) {
    await store.record(id, event);
    onKept(`event of ${id}`);
  }
  await store.append(episode);
  onKept(id);
  await store.appendGroup({ group: groupOf(episode), sampleLines: [`{"of":"${id}"}`] });
  onKept(`of ${id}`);
}

/** Content of every file by name; the journal is empty once nothing is in flight. */
async function filesOf(folder: string): Promise<Readonly<Record<string, string>>> {
  const names = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const texts = names.map(async ({ name }) => [name, await readFile(join(folder, name), "utf8")] as const);
  return Object.fromEntries(await Promise.all(texts));
}

/**
 * A copy of the folder as its killed process left it, with a lock that names no live process. The
 * disk has room from then on.
 */
async function afterKill(folder: string): Promise<string> {
  const copy = newFolder();
  await cp(folder, copy, { recursive: true });
  disk.room = Infinity;
  const nobody = { pid: process.pid, began: "0", host: hostname(), since: "x" };
  await writeFile(join(copy, "run.lock"), JSON.stringify(nobody));
  return copy;
}

describe("a store whose disk is full", () => {
  it("writes the same bytes as one whose disk never was, wherever writes stopped, and keeps what it acknowledged", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 4000 }), { minLength: 1, maxLength: 12 }),
        fc.constantFrom("ENOSPC", "EDQUOT", "EFBIG"),
        fc.constantFrom("always" as const, "never" as const),
        async (rooms, code, fsync) => {
          disk.room = Infinity;
          const calm = newFolder();
          const first = createFileRunStore(calm, { fsync });
          await first.begin(manifest);
          for (const id of ["a", "b", "c"]) await play(first, id);
          await first.close(manifest);

          const folder = newFolder();
          const store = createFileRunStore(folder, { fsync, patience });
          await store.begin(manifest);
          const acknowledged = new Set<string>();
          const events = new Map<string, number>();
          const playing = (async () => {
            for (const id of ["a", "b", "c"])
              await play(store, id, (what) => {
                acknowledged.add(what);
                if (what.startsWith("event of")) events.set(id, (events.get(id) ?? 0) + 1);
              });
          })();
          Object.assign(disk, { code });
          for (const room of rooms) {
            disk.room = room;
            await Promise.race([playing, later(30)]);
          }
          // Killed while the disk is full: everything acknowledged is stored, and nothing is stored
          // twice.
          if (store.disk.fault !== null) {
            expect(store.disk.fault).toMatchObject({ code, message: expect.stringContaining(folder) as string });
            const known = { episodes: [...acknowledged], events: new Map(events) };
            const copy = await afterKill(folder);
            const run = await resumeFileRunStore(copy);
            for (const id of ["a", "b", "c"]) {
              if (known.episodes.includes(id)) expect(run.ended.has(id)).toBe(true);
              if (known.episodes.includes(`of ${id}`)) expect(run.decided.has(`of ${id}`)).toBe(true);
              const recorded = await run.store.recorded(id);
              if (!run.ended.has(id)) expect(recorded.length).toBeGreaterThanOrEqual(known.events.get(id) ?? 0);
            }
            await run.release();
          }
          disk.room = Infinity;
          await playing;
          expect(await store.disk.retry()).toBe(null);
          await store.close(manifest);
          expect(await filesOf(folder)).toEqual(await filesOf(calm));
        },
      ),
      { numRuns: process.env["FULL"] === "1" ? 200 : 8 },
    );
  }, 120_000);

  it("is tried after a request to retry, even if an attempt from before is still failing", async () => {
    const patient = new Disk("here", patience);
    const full = Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
    let hasRoom = false;
    let fail = (): void => undefined;
    let attempts = 0;
    const written = patient.repeat(async () => {
      attempts++;
      if (hasRoom) return "written";
      if (attempts === 2) await new Promise<void>((end) => (fail = end));
      throw full;
    });
    await expect.poll(() => attempts).toBe(2);
    hasRoom = true;
    const retried = patient.retry();
    fail();
    expect(await retried).toBe(null);
    expect(await written).toBe("written");
    expect(attempts).toBe(3);
  });

  it("says so while it waits, tries at once when it is told to, and is silent afterwards", async () => {
    const store = createFileRunStore(newFolder(), { patience });
    await store.begin(manifest);
    const seen: (string | null)[] = [];
    store.disk.subscribe(() => seen.push(store.disk.fault?.code ?? null));
    disk.room = 10;
    const playing = play(store, "a");
    while (store.disk.fault === null) await later(1);
    expect(await store.disk.retry()).toMatchObject({
      message: expect.stringContaining("make room on the disk") as string,
    });
    disk.room = Infinity;
    expect(await store.disk.retry()).toBe(null);
    await playing;
    expect(seen).toEqual(["ENOSPC", null]);
    await store.close(manifest);
  });

  it("rejects once its patience is over, then always, and resumes with everything that was acknowledged", async () => {
    const folder = newFolder();
    const store = createFileRunStore(folder, { patience: { waitMs: 100 } });
    await store.begin(manifest);
    await play(store, "a");
    disk.room = 25;
    await expect(play(store, "b")).rejects.toThrow(/Cannot record an event of episode "b" .* make room on the disk/);
    disk.room = Infinity;
    await expect(store.append(sampleEpisode("c"))).rejects.toThrow('Cannot store episode "c"');
    await store.close(new Map([["status", "failed"]]));
    expect((await openRunFolder(folder).manifest()).get("status")).toBe("failed");
    const run = await resumeFileRunStore(folder, { patience });
    expect([...run.ended]).toEqual(["a"]);
    await run.store.begin(manifest);
    await play(run.store, "b");
    await run.store.close(manifest);
    const ids: string[] = [];
    for await (const { id } of openRunFolder(folder).episodes()) ids.push(id);
    expect(ids).toEqual(["a", "b"]);
  });

  it("waits no longer once its owner gives up, and can be closed", async () => {
    const folder = newFolder();
    const store = createFileRunStore(folder, { patience });
    await store.begin(manifest);
    disk.room = 25;
    const playing = play(store, "a").catch((error: unknown) => error);
    while (store.disk.fault === null) await later(1);
    store.disk.giveUp();
    expect(String(await playing)).toContain("make room on the disk");
    // The last manifest does not fit either, but the folder is unlocked.
    await expect(store.close(manifest)).rejects.toThrow("make room on the disk");
    disk.room = Infinity;
    await (await resumeFileRunStore(folder)).release();
  });

  it("waits for other faults only where it was told to, and never after the system has lost data or the file is gone", async () => {
    const quick = createFileRunStore(newFolder(), { patience });
    await quick.begin(manifest);
    Object.assign(disk, { code: "EROFS", room: 0 });
    await expect(play(quick, "a")).rejects.toThrow("mount it writable");
    disk.room = Infinity;
    await quick.close(manifest);

    const patient = createFileRunStore(newFolder(), { patience: { ...patience, waitsForAll: true } });
    await patient.begin(manifest);
    disk.room = 0;
    const playing = play(patient, "a");
    while (patient.disk.fault === null) await later(1);
    expect(patient.disk.fault.code).toBe("EROFS");
    disk.room = Infinity;
    await playing;

    await rm(patient.location, { recursive: true });
    await later(1100);
    await expect(play(patient, "b")).rejects.toThrow("the file was removed");
    expect(patient.disk).toMatchObject({ isFinal: true, fault: { code: "ENOENT" } });
    await expect(patient.close(manifest)).rejects.toThrow("ENOENT");
    expect(await readdir(root)).not.toContain(patient.location);
  });

  it("cannot begin, and leaves a folder in which it can", async () => {
    const folder = newFolder();
    disk.room = 0;
    const store = createFileRunStore(folder, { patience });
    await expect(store.begin(manifest)).rejects.toThrow("make room on the disk");
    disk.room = Infinity;
    const again = createFileRunStore(folder);
    await again.begin(manifest);
    await play(again, "a");
    await again.close(manifest);
  });
});

describe("Disk", () => {
  it("makes a write once without patience, and does not take our own mistake for a fault of the disk", async () => {
    await mkdir(join(root, "x"), { recursive: true });
    let calls = 0;
    const fail = (code?: string) => async (): Promise<never> => {
      calls++;
      throw Object.assign(new Error("no"), code === undefined ? {} : { code });
    };
    await expect(new Disk("x").repeat(fail("ENOSPC"))).rejects.toThrow("no");
    const patient = new Disk("x", { waitMs: Infinity, waitsForAll: true });
    await expect(patient.repeat(fail())).rejects.toThrow("no");
    expect([calls, patient.isFinal, patient.fault]).toEqual([2, false, null]);
  });
});
