import { appendFile, mkdir, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConfigurationError, type EpisodeEvent, type GroupRecord } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { systemClock } from "../lib/clock.ts";
import { RunJournal } from "./journal.ts";
import { flipped, sampleEpisode, withChecksum } from "./sample-episode.test-helper.ts";
import {
  createFileRunStore,
  type FileRunStore,
  type FileRunStoreOptions,
  openRunFolder,
  resumeFileRunStore,
} from "./index.ts";

const manifest: JsonObject = new Map([["format", 4]]);
let root = "";
let made = 0;
/** Stores of processes that count as killed; their files are closed at the end. */
const opened: FileRunStore[] = [];

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "run-journal-"));
});
afterAll(async () => {
  for (const store of opened) await store.close(manifest);
  await rm(root, { recursive: true });
});

const events = sampleEpisode("x").events;
const groupOf = (...ids: string[]): GroupRecord => ({
  groupId: `group of ${ids.join(" ")}`,
  taskId: "t",
  groupIndex: 0,
  decision: "kept",
  reason: null,
  episodeIds: ids,
  rewards: ids.map(() => 1),
});

async function begun(options: FileRunStoreOptions = {}) {
  const folder = join(root, String(made++));
  const store = createFileRunStore(folder, options);
  await store.begin(manifest);
  opened.push(store);
  return { folder, store };
}

/** Imitates the death of the process: its lock stays and names no live process. */
async function kill(folder: string): Promise<void> {
  await writeFile(
    join(folder, "run.lock"),
    JSON.stringify({ pid: process.pid, began: "0", host: hostname(), since: "x" }),
  );
}

async function resumed(folder: string, options: FileRunStoreOptions = {}) {
  await kill(folder);
  const run = await resumeFileRunStore(folder, options);
  await run.store.begin(manifest);
  opened.push(run.store);
  return run;
}

const segment = (folder: string, number: number): string =>
  join(folder, "journal", `${String(number).padStart(8, "0")}.jsonl`);

async function list<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe("EpisodeJournal (files)", () => {
  it("gives back the events of episodes under way, in order and without loss, after any number of processes", async () => {
    const { folder, store } = await begun({ fsync: "never" });
    await Promise.all(events.slice(0, 3).flatMap((event) => ["a", 'b"\\\ud800,'].map((id) => store.record(id, event))));
    let run = await resumed(folder, { fsync: "always" });
    expect(run.inFlight).toEqual(new Set(["a", 'b"\\\ud800,']));
    for (const event of events.slice(3, 5)) await run.store.record("a", event);
    run = await resumed(folder, { fsync: 1 });
    await run.store.record("a", events[5]!);
    run = await resumed(folder);
    expect(await run.store.recorded("a")).toEqual(events.slice(0, 6));
    expect(await run.store.recorded('b"\\\ud800,')).toEqual(events.slice(0, 3));
    expect(await run.store.recorded("never begun")).toEqual([]);
    await run.store.close(manifest);
  });

  it("knows an episode that has ended by itself, and forgets its events", async () => {
    const { folder, store } = await begun();
    for (const id of ["ended", "under way"]) for (const event of events) await store.record(id, event);
    await store.append(sampleEpisode("ended"));
    const run = await resumed(folder);
    expect([run.ended, run.inFlight]).toEqual([new Set(["ended"]), new Set(["under way"])]);
    expect(await run.store.kept("ended")).toEqual(sampleEpisode("ended"));
    expect(await run.store.kept("under way")).toBeNull();
    expect(await run.store.recorded("ended")).toEqual([]);
    await run.store.append(sampleEpisode("under way"));
    await run.store.close(manifest);
    expect((await readdir(folder)).toSorted()).toEqual(["episodes.jsonl", "groups.jsonl", "index.jsonl", "run.json"]);
    expect((await list(openRunFolder(folder).episodes())).map(({ id }) => id)).toEqual(["ended", "under way"]);
  });

  it("recognises a last record that was cut at any byte: it is left out, told, and written again", async () => {
    const { folder, store } = await begun({ fsync: "never" });
    for (const event of events.slice(0, 2)) await store.record("a", event);
    const file = segment(folder, 1);
    const whole = await readFile(file);
    const lastStart = whole.lastIndexOf(0x0a, whole.length - 2) + 1;
    for (let length = lastStart; length < whole.length; length++) {
      await writeFile(file, whole.subarray(0, length));
      await kill(folder);
      const run = await resumeFileRunStore(folder);
      expect(run.torn).toEqual(length === lastStart ? [] : [{ file, bytes: length - lastStart }]);
      expect(await run.store.recorded("a")).toEqual(events.slice(0, 1));
    }
    const run = await resumed(folder);
    for (const event of events.slice(1, 4)) await run.store.record("a", event);
    const again = await resumed(folder);
    expect(await again.store.recorded("a")).toEqual(events.slice(0, 4));
    expect(again.torn).toHaveLength(1);
  });

  it("refuses a line that is broken or missing in the middle, with its place; a broken last one was being written", async () => {
    const { folder, store } = await begun({ fsync: "never" });
    for (const event of events.slice(0, 4)) await store.record("a", event);
    const file = segment(folder, 1);
    const whole = await readFile(file, "utf8");
    const lines = whole.split("\n");
    const place = lines[0]!.length + 1;
    await writeFile(file, whole.replace('"user-line"', '"user-lime"'));
    await kill(folder);
    await expect(resumeFileRunStore(folder)).rejects.toThrow(
      `"${file}": line 2, at byte ${place}, is not what was written`,
    );
    await writeFile(file, [lines[0], ...lines.slice(2)].join("\n"));
    await expect(resumeFileRunStore(folder)).rejects.toThrow('event 1 of episode "a" is missing before line 2');
    const bytes = Buffer.from(whole);
    for (let at = 0; at <= place; at++) {
      await writeFile(file, flipped(bytes, at));
      await expect(resumeFileRunStore(folder)).rejects.toThrow(ConfigurationError);
    }
    await writeFile(file, whole.replace(/.{9}\n$/, "corrupt!\n"));
    const run = await resumed(folder);
    expect(run.torn).toEqual([{ file, bytes: lines[3]!.length }]);
    expect(await run.store.recorded("a")).toEqual(events.slice(0, 3));
  });

  it("removes segments whose episodes have all ended, and keeps those of a straggler", async () => {
    const { folder, store } = await begun({ segmentBytes: 2000 });
    await store.record("straggler", events[0]!);
    for (let index = 0; index < 20; index++) {
      for (const event of events) await store.record(`ep ${index}`, event);
      await store.append(sampleEpisode(`ep ${index}`));
      expect((await readdir(join(folder, "journal"))).length).toBeLessThanOrEqual(6);
    }
    await store.record("straggler", events[1]!);
    const run = await resumed(folder);
    expect(await run.store.recorded("straggler")).toEqual(events.slice(0, 2));
    await run.store.append(sampleEpisode("straggler"));
    await run.store.close(manifest);
    expect(await readdir(folder)).not.toContain("journal");
  });

  it("does not sync a segment that is being closed", async () => {
    const syncs: (() => void)[] = [];
    const clock = { ...systemClock, after: (_: number, sync: () => void) => (syncs.push(sync), () => undefined) };
    const options = { fsync: 5, clock, redact: String, beforeRemoval: () => Promise.resolve() };
    const none = { segments: new Map(), counts: new Map() };
    await mkdir(join(root, "closing"));
    const journal = new RunJournal(join(root, "closing", "journal"), none, options);
    await journal.record("a", events[0]!);
    const closing = journal.close();
    for (const sync of syncs) sync();
    await closing;
    for (const sync of syncs) sync();
    await expect(journal.close()).resolves.toBeUndefined();
  });

  it("holds no secret, and is whole all the same", async () => {
    const { folder, store } = await begun({ redact: (text) => text.replaceAll("canary", "***") });
    const line = {
      type: "utterance",
      text: "the canary!",
      usage: { modelCalls: 0, inputTokens: 0, outputTokens: 0, cost: 0 },
    };
    const event: EpisodeEvent = { type: "user-line", line: line as never, durationMs: 0 };
    await store.record("a", event);
    expect(await readFile(segment(folder, 1), "utf8")).not.toContain("canary");
    const run = await resumed(folder);
    expect(await run.store.recorded("a")).toEqual([{ ...event, line: { ...line, text: "the ***!" } }]);
  });
});

describe("resumeFileRunStore()", () => {
  it("cuts torn lines and rows of groups that are not decided, and tells of the groups that are", async () => {
    const { folder, store } = await begun();
    for (const id of ["a", "b"]) await store.append(sampleEpisode(id));
    await store.appendGroup({ group: groupOf("a"), sampleLines: ['{"row":1}', '{"row":2}'] });
    await appendFile(join(folder, "samples.jsonl"), '{"row":3}\n{"ro');
    await appendFile(join(folder, "groups.jsonl"), '{"groupId"');
    await appendFile(join(folder, "episodes.jsonl"), '{"id":"c","gr');
    const run = await resumed(folder);
    expect(run.decided).toEqual(new Map([[groupOf("a").groupId, groupOf("a")]]));
    expect(run.torn.map(({ bytes }) => bytes)).toEqual([13, 10]);
    await run.store.append(sampleEpisode("c"));
    await run.store.appendGroup({ group: groupOf("b", "c"), sampleLines: ['{"row":3}'] });
    await run.store.close(manifest);
    const reader = openRunFolder(folder);
    expect((await list(reader.episodes())).map(({ id }) => id)).toEqual(["a", "b", "c"]);
    expect(await list(reader.sampleLines())).toEqual(['{"row":1}', '{"row":2}', '{"row":3}']);
    expect(await list(reader.groups())).toEqual([groupOf("a"), groupOf("b", "c")]);
  });

  it("decides groups again whose rows or episodes a power cut has taken", async () => {
    const { folder, store } = await begun();
    for (const id of ["a", "b"]) await store.append(sampleEpisode(id));
    for (const id of ["a", "b"]) await store.appendGroup({ group: groupOf(id), sampleLines: [`{"row":"${id}"}`] });
    await truncate(join(folder, "samples.jsonl"), 15);
    expect([...(await resumed(folder)).decided.values()]).toEqual([groupOf("a")]);
    expect(await list(openRunFolder(folder).sampleLines())).toEqual(['{"row":"a"}']);
    await truncate(join(folder, "episodes.jsonl"), 10);
    expect((await resumed(folder)).decided.size).toBe(0);
    expect(await list(openRunFolder(folder).sampleLines())).toEqual([]);
  });

  it("names an episode or a group that cannot be read", async () => {
    const { folder, store } = await begun();
    await store.close(manifest);
    await appendFile(join(folder, "episodes.jsonl"), withChecksum('{"id":3'));
    await expect(resumeFileRunStore(folder)).rejects.toThrow(/episodes\.jsonl" line 1.*it is number, expected a text/);
    await writeFile(join(folder, "episodes.jsonl"), "");
    await appendFile(join(folder, "groups.jsonl"), withChecksum('{"a":0'));
    await expect(resumeFileRunStore(folder)).rejects.toThrow(/groups\.jsonl" line 1.*groupId: it is nothing/);
    expect(await readdir(folder)).not.toContain("run.lock");
  });
});

describe("a run whose process was killed while it began", () => {
  it("begins again in its folder; a folder with anything else is refused", async () => {
    const folder = join(root, String(made++));
    await mkdir(folder);
    for (const name of ["episodes.jsonl", "groups.jsonl"]) await writeFile(join(folder, name), "");
    await writeFile(join(folder, "run.json.new"), '{"sta');
    const store = createFileRunStore(folder);
    await store.begin(manifest);
    await store.close(manifest);
    await rm(join(folder, "run.json"));
    await writeFile(join(folder, "samples.jsonl"), "{}\n");
    await expect(createFileRunStore(folder).begin(manifest)).rejects.toThrow("is not empty");
  });
});

describe("the lock of a run folder", () => {
  it("belongs to one process that lives; what a killed one left is taken over", async () => {
    const { folder, store } = await begun();
    await expect(resumeFileRunStore(folder)).rejects.toThrow(`process ${process.pid} has been using it since`);
    await store.close(manifest);
    const lock = join(folder, "run.lock");
    const gone = { pid: 2 ** 22 + 5, began: null, host: hostname(), since: "yesterday" };
    for (const left of [
      JSON.stringify(gone),
      JSON.stringify({ ...gone, pid: process.pid, began: "1" }),
      "",
      '{"pid":',
    ]) {
      await writeFile(lock, left);
      const { store: again } = await resumeFileRunStore(folder);
      await again.begin(manifest);
      await again.close(manifest);
    }
    await writeFile(lock, JSON.stringify({ ...gone, host: "elsewhere" }));
    await expect(resumeFileRunStore(folder)).rejects.toThrow(
      /on "elsewhere" has been using it since yesterday; if it is gone, remove/,
    );
  });
});
