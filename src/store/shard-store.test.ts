import { appendFile, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { flipped, sampleEpisode } from "./sample-episode.test-helper.ts";
import { createFileRunStore, openShard, resumeFileRunStore, type ShardStore, summaryFromPlain } from "./index.ts";

let root = "";
let made = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "shard-store-"));
});
afterAll(async () => {
  // A killed process is imitated by one that never closes.
  for (const shard of killed) await shard.close();
  await rm(root, { recursive: true });
});

const killed: ShardStore[] = [];

const newFolder = (): string => join(root, `run-${made++}`);
const { events } = sampleEpisode("e");

/** Leaves the shard as a killed process does. */
async function kill(shard: ShardStore): Promise<void> {
  killed.push(shard);
  await rm(join(shard.location, "run.lock"));
}

describe("openShard()", () => {
  it("gives a receipt with which the episode counts in the run, and reads back from there", async () => {
    const folder = newFolder();
    const run = createFileRunStore(folder, { hasShards: true });
    await run.begin(new Map());
    const shards = await Promise.all(["w1", "w2"].map((name) => openShard(folder, name)));
    const receipts = await Promise.all(
      shards.flatMap((shard, at) => ["a", "b"].map((id) => shard.append(sampleEpisode(`${id}${at}`)))),
    );
    for (const receipt of receipts) {
      expect(await run.appendIndexed(summaryFromPlain(JSON.parse(JSON.stringify(receipt)), "receipt"))).toBe(true);
    }
    for (const shard of shards) await shard.close();
    await run.close(new Map());
    const resumed = await resumeFileRunStore(folder);
    expect(resumed.ended).toEqual(new Set(["a0", "b0", "a1", "b1"]));
    expect(await resumed.store.kept("b1")).toEqual(sampleEpisode("b1"));
    await resumed.release();
  });

  it("continues where a killed process stopped: ended episodes have their receipts, others their events", async () => {
    const folder = newFolder();
    const first = await openShard(folder, "w");
    const receipt = await first.append(sampleEpisode("ended"));
    for (const event of events.slice(0, 3)) await first.record("in flight", event);
    await kill(first);
    await appendFile(join(first.location, "episodes.jsonl"), '{"id":"torn');
    const second = await openShard(folder, "w");
    expect(await second.receipt("ended")).toEqual(receipt);
    expect(await second.kept("ended")).toEqual(sampleEpisode("ended"));
    expect([await second.receipt("torn"), await second.kept("torn")]).toEqual([null, null]);
    expect(await second.recorded("in flight")).toEqual(events.slice(0, 3));
    await second.append(sampleEpisode("later"));
    expect((await second.receipt("later"))?.place.offset).toBe(receipt.place.length + 1);
    await second.close();
  });

  it("keeps the events of an episode that was given back and comes again, in this process and the next", async () => {
    const folder = newFolder();
    const shard = await openShard(folder, "w");
    for (const event of events.slice(0, 2)) await shard.record("x", event);
    expect(await shard.recorded("x")).toEqual(events.slice(0, 2));
    await shard.record("x", events[2]!);
    await kill(shard);
    const next = await openShard(folder, "w");
    expect(await next.recorded("x")).toEqual(events.slice(0, 3));
    await next.close();
  });

  it("reads events beside those of an episode that has ended and began in an earlier life", async () => {
    const folder = newFolder();
    const first = await openShard(folder, "w");
    await first.record("e", events[0]!);
    await kill(first);
    const second = await openShard(folder, "w");
    await second.record("e", events[1]!);
    for (const event of events.slice(0, 2)) await second.record("x", event);
    // The first event is removed together with the segment of the first process.
    await second.append(sampleEpisode("e"));
    expect(await second.recorded("x")).toEqual(events.slice(0, 2));
    const other = await openShard(folder, "other");
    expect(await other.adopt("x", "w")).toBe(2);
    for (const one of [second, other]) await one.close();
  });

  it("takes over what a process that ran alone has left, whose journal goes once the episode counts", async () => {
    const folder = newFolder();
    const alone = createFileRunStore(folder);
    await alone.begin(new Map());
    for (const event of events.slice(0, 2)) await alone.record("x", event);
    await alone.close(new Map());
    const { store } = await resumeFileRunStore(folder, { hasShards: true });
    await store.begin(new Map());
    const shard = await openShard(folder, "w");
    expect(await shard.adopt("x", null)).toBe(2);
    expect(await shard.recorded("x")).toEqual(events.slice(0, 2));
    await store.appendIndexed(await shard.append(sampleEpisode("x")));
    await shard.close();
    await store.close(new Map());
    await expect(readFile(join(folder, "journal", "00000001.jsonl"))).rejects.toThrow("ENOENT");
  });

  it("takes over the events of a dead worker's episode once, and leaves that one's files as they are", async () => {
    const folder = newFolder();
    const dead = await openShard(folder, "dead", { fsync: "never" });
    for (const event of events.slice(0, 4)) await dead.record("x", event);
    const journal = join(dead.location, "journal", "00000001.jsonl");
    const before = await readFile(journal);
    const shard = await openShard(folder, "w");
    expect(await shard.adopt("x", "dead")).toBe(4);
    expect(await shard.recorded("x")).toEqual(events.slice(0, 4));
    await shard.record("x", events[4]!);
    expect(await shard.adopt("x", "dead")).toBe(0);
    expect(await shard.adopt("never begun", "dead")).toBe(0);
    expect(await shard.adopt("x", "no such shard")).toBe(0);
    expect(await shard.adopt("x", "../../elsewhere")).toBe(0);
    const lost = join(folder, "shards", "lost", "journal");
    await mkdir(lost, { recursive: true });
    await writeFile(join(lost, "00000001.jsonl"), flipped(before, 40));
    expect(await shard.adopt("y", "lost")).toBe(0);
    for (const one of [dead, shard]) await kill(one);
    const next = await openShard(folder, "w");
    expect(await next.recorded("x")).toEqual(events.slice(0, 5));
    expect((await readFile(journal)).equals(before)).toBe(true);
    await next.close();
  });

  it("counts no line that changed, and none of a file that was cut", async () => {
    const folder = newFolder();
    const shard = await openShard(folder, "w");
    const [one, two] = [await shard.append(sampleEpisode("one")), await shard.append(sampleEpisode("two"))];
    await shard.close();
    const file = join(shard.location, "episodes.jsonl");
    const whole = await readFile(file);
    await writeFile(file, flipped(whole, 200));
    const changed = await openShard(folder, "w");
    expect([await changed.receipt("one"), await changed.receipt("two")]).toEqual([null, two]);
    await changed.close();
    await writeFile(file, whole);
    await truncate(file, whole.length - 1);
    const cut = await openShard(folder, "w");
    expect([await cut.receipt("one"), await cut.receipt("two")]).toEqual([one, null]);
    expect((await cut.append(sampleEpisode("two"))).place).toEqual(two.place);
    await cut.close();
    expect((await readFile(file)).equals(whole)).toBe(true);
  });

  it("is used by one process at a time, under a name that stays in its folder", async () => {
    const folder = newFolder();
    const shard = await openShard(folder, "w");
    await expect(openShard(folder, "w")).rejects.toThrow("has been using it since");
    await shard.close();
    await shard.close();
    await expect(shard.append(sampleEpisode("late"))).rejects.toThrow("it is closed");
    await expect(shard.record("late", events[0]!)).rejects.toThrow("it is closed");
    for (const name of ["..", "", "a/b", ".w", "w\\x"]) {
      await expect(openShard(folder, name)).rejects.toThrow(ConfigurationError);
    }
  });

  it("takes secrets out before the checksum is made", async () => {
    const folder = newFolder();
    const shard = await openShard(folder, "w", { redact: (text) => text.replaceAll("canary", "***") });
    const { place } = await shard.append({ ...sampleEpisode("x"), info: new Map([["key", "canary"]]) });
    await shard.record("y", {
      type: "close-failure",
      failure: { boundary: "tool", code: "x", message: "canary", retryable: false, cause: null },
    });
    for (const file of ["episodes.jsonl", join("journal", "00000001.jsonl")]) {
      expect(await readFile(join(shard.location, file), "utf8")).not.toContain("canary");
    }
    expect((await shard.receipt("x"))?.place).toEqual(place);
    await shard.close();
  });
});
