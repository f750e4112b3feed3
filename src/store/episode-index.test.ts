import { appendFile, copyFile, mkdir, mkdtemp, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Episode } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";
import { flipped, sampleEpisode } from "./sample-episode.test-helper.ts";
import {
  createFileRunStore,
  episodeLine,
  type EpisodeSummary,
  resumeFileRunStore,
  summaryFromPlain,
  summaryOf,
  type UnnumberedSummary,
} from "./index.ts";
import { readSummary } from "./episode-index.ts";
import { withChecksum } from "./sample-episode.test-helper.ts";

const manifest: JsonObject = new Map();
let root = "";
let made = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "episode-index-"));
});
afterAll(() => rm(root, { recursive: true }));

const newFolder = (): string => join(root, `run-${made++}`);

async function indexOf(folder: string): Promise<EpisodeSummary[]> {
  const file = join(folder, "index.jsonl");
  const lines = (await readFile(file)).toString("latin1").split("\n").slice(0, -1);
  return lines.map((line, at) => readSummary(Buffer.from(line, "latin1"), file, `line ${at + 1}`));
}

/** A run of three episodes, and the bytes of its files. */
async function finishedRun(): Promise<{ folder: string; index: Buffer; episodes: Buffer }> {
  const folder = newFolder();
  const store = createFileRunStore(folder);
  await store.begin(manifest);
  for (const id of ["one", "two \ud800", "three"]) await store.append(sampleEpisode(id));
  await store.close(manifest);
  return {
    folder,
    index: await readFile(join(folder, "index.jsonl")),
    episodes: await readFile(join(folder, "episodes.jsonl")),
  };
}

async function resumed(folder: string): Promise<Buffer> {
  const { store } = await resumeFileRunStore(folder);
  await store.begin(manifest);
  await store.close(manifest);
  return readFile(join(folder, "index.jsonl"));
}

/** Writes an episode into a shard, as another process does. */
async function shardEpisode(folder: string, shard: string, episode: Episode): Promise<UnnumberedSummary> {
  await mkdir(join(folder, "shards", shard), { recursive: true });
  const file = join(folder, "shards", shard, "episodes.jsonl");
  const offset = (await readFile(file).catch(() => Buffer.alloc(0))).length;
  const line = withChecksum(episodeLine(episode).slice(0, -1));
  await appendFile(file, line);
  const length = Buffer.byteLength(line) - 1;
  return { ...summaryOf(episode), place: { shard, offset, length, crc32: line.slice(-11, -3) } };
}

describe("the index of a run", () => {
  it("has a line for each episode with what a list shows, and where the whole record stands", async () => {
    const { folder, episodes } = await finishedRun();
    const summaries = await indexOf(folder);
    expect(summaries.map(({ number, id }) => [number, id])).toEqual([
      [1, "one"],
      [2, "two \ud800"],
      [3, "three"],
    ]);
    for (const { id, place } of summaries) {
      const line = episodes.toString("utf8", place.offset, place.offset + place.length);
      expect(line).toContain(JSON.stringify(id));
      expect(line.endsWith(`,"crc32":"${place.crc32}"}`)).toBe(true);
      expect(episodes[place.offset + place.length]).toBe(0x0a);
    }
    expect(summaries[0]).toMatchObject({
      groupId: "desk:train:3",
      sampleIndex: 1,
      task: { environment: "desk", split: "train", id: "desk:train:3", index: 3, contentHash: "ab".repeat(32) },
      outcome: "failed",
      stopReason: "fault",
      failure: { boundary: "engine", code: "overloaded" },
      reward: null,
      gradeNote: "half",
      problems: { "unknown-tool": 1 },
      turns: 3,
      decisions: 6,
      observedTokens: 9,
      sampledTokens: 6,
      trainedTokens: 0,
      samples: 0,
      oldestWeights: "1",
      newestWeights: "2",
      durationMs: 14.5,
    });
  });

  it("counts what trains as the rows do, of branches and discarded turns, too", () => {
    const graded: Episode = {
      ...sampleEpisode("x"),
      outcome: "completed",
      stopReason: "tool_ended",
      failure: null,
      reward: 0,
    };
    expect(summaryOf(graded)).toMatchObject({ samples: 2, trainedTokens: 6, longestSample: 10 });
    const [first] = graded.trajectory.turns;
    const aborted = { ...first!, finish: { ...first!.finish, reason: "abort" as const } };
    const dropped = { ...graded, trajectory: { turns: [aborted, ...graded.trajectory.turns.slice(1)] } };
    expect(summaryOf(dropped)).toMatchObject({ samples: 2, trainedTokens: 4, longestSample: 10, sampledTokens: 6 });
    expect(summaryOf({ ...graded, historyPolicy: "no-tokens" })).toMatchObject({ samples: 0, trainedTokens: 0 });
  });

  it("names the oldest and newest weights by number where all versions are numbers, else by order", () => {
    const of = (...versions: readonly (string | null)[]): readonly (string | null)[] => {
      const episode = sampleEpisode("x");
      const weightSpans = versions.map((version) => ({ tokenCount: 1, dispatch: version, reply: version }));
      const turns = episode.trajectory.turns.slice(0, 1).map((turn) => ({ ...turn, weightSpans }));
      const { oldestWeights, newestWeights } = summaryOf({ ...episode, trajectory: { turns } });
      return [oldestWeights, newestWeights];
    };
    expect(of("10", "9", "11", null)).toEqual(["9", "11"]);
    expect(of("b", "a", "10")).toEqual(["b", "10"]);
    expect(of(null)).toEqual([null, null]);
  });

  it("is whole after a process was killed at any byte of it, and after it was lost or changed", async () => {
    const { folder, index } = await finishedRun();
    const file = join(folder, "index.jsonl");
    for (let length = 0; length < index.length; length += 41) {
      await truncate(file, length);
      expect((await resumed(folder)).equals(index)).toBe(true);
    }
    await rm(file);
    expect((await resumed(folder)).equals(index)).toBe(true);
    for (let at = 0; at < index.length; at += 97) {
      await writeFile(file, flipped(index, at));
      expect((await resumed(folder)).equals(index)).toBe(true);
    }
    const lines = index.toString().split("\n");
    for (const changed of [
      [lines[0], lines[0], lines[1], lines[2]],
      [lines[1], lines[2]],
      [lines[1], lines[0]],
      [...lines.slice(0, 3), lines[2]],
    ]) {
      await writeFile(file, `${changed.join("\n")}\n`);
      expect((await resumed(folder)).equals(index)).toBe(true);
    }
  });

  it("is made again in place of that of another run, and of one that is longer than its episodes", async () => {
    const { folder, index, episodes } = await finishedRun();
    const other = newFolder();
    const store = createFileRunStore(other);
    await store.begin(manifest);
    for (const id of ["one", "elsewhere"]) await store.append(sampleEpisode(id));
    await store.close(manifest);
    await copyFile(join(other, "index.jsonl"), join(folder, "index.jsonl"));
    expect((await resumed(folder)).equals(index)).toBe(true);
    const firstLine = episodes.indexOf("\n") + 1;
    await truncate(join(folder, "episodes.jsonl"), firstLine);
    expect((await resumed(folder)).toString()).toBe(index.toString().split("\n").slice(0, 1).join("") + "\n");
  });
});

describe("appendIndexed()", () => {
  /** A run with one episode of its own and one in a shard. */
  async function shardedRun(): Promise<{ folder: string; summary: UnnumberedSummary }> {
    const folder = newFolder();
    const store = createFileRunStore(folder, { hasShards: true });
    await store.begin(manifest);
    await store.append(sampleEpisode("own"));
    const summary = await shardEpisode(folder, "w1", sampleEpisode("afar"));
    // The summary after a trip through JSON, as it arrives from another process.
    expect(await store.appendIndexed(summaryFromPlain(JSON.parse(JSON.stringify(summary)), "receipt"))).toBe(true);
    await store.close(manifest);
    return { folder, summary };
  }

  it("records an episode of a shard once: the first counts, also after a resume", async () => {
    const { folder, summary } = await shardedRun();
    expect(await readFile(join(folder, "run.json"), "utf8")).toContain('"sharded": true');
    const again = await shardEpisode(folder, "w2", sampleEpisode("afar"));
    const run = await resumeFileRunStore(folder);
    expect(run.ended).toEqual(new Set(["own", "afar"]));
    await run.store.begin(manifest);
    expect(await run.store.appendIndexed(again)).toBe(false);
    expect(await run.store.kept("afar")).toEqual(sampleEpisode("afar"));
    await run.store.close(manifest);
    expect((await indexOf(folder)).map(({ number, id, place }) => [number, id, place.shard])).toEqual([
      [1, "own", null],
      [2, "afar", "w1"],
    ]);
    expect((await indexOf(folder))[1]?.place).toEqual(summary.place);
  });

  it("keeps lines of shards when its own episodes were not yet in the index, and numbers all again", async () => {
    const { folder } = await shardedRun();
    const file = join(folder, "index.jsonl");
    const [own, afar] = (await readFile(file, "utf8")).split("\n");
    await writeFile(file, `${afar}\n{"torn`);
    await resumed(folder);
    expect((await indexOf(folder)).map(({ number, id }) => [number, id])).toEqual([
      [1, "afar"],
      [2, "own"],
    ]);
    await writeFile(file, `${own}\n`);
    const run = await resumeFileRunStore(folder);
    expect(run.ended).toEqual(new Set(["own"]));
    await run.release();
  });

  it("refuses to resume where the index or the line of a shard is lost or changed, and says what to do", async () => {
    const { folder } = await shardedRun();
    const [index, shard] = [join(folder, "index.jsonl"), join(folder, "shards", "w1", "episodes.jsonl")];
    const [indexBytes, shardBytes] = [await readFile(index), await readFile(shard)];
    const refusal = () => resumeFileRunStore(folder).then(() => "resumed", String);
    await writeFile(index, flipped(indexBytes, indexBytes.length - 100));
    expect(await refusal()).toContain('index.jsonl" line 2');
    await rm(index);
    expect(await refusal()).toContain("which says which entries of its shards count");
    await writeFile(index, indexBytes);
    await writeFile(shard, flipped(shardBytes, 100));
    expect(await refusal()).toContain('Cannot read episode "afar"');
    await truncate(shard, 50);
    expect(await refusal()).toContain("the file ends at byte 50");
    await rm(join(folder, "shards"), { recursive: true });
    expect(await refusal()).toContain("remove the line of the episode from index.jsonl");
    await writeFile(index, `${indexBytes.toString().split("\n")[0]}\n`);
    expect(await refusal()).toBe("resumed");
  });

  it("refuses summaries of other shapes, and shards whose names lead elsewhere", async () => {
    const summary = await shardEpisode(newFolder(), "w1", sampleEpisode("afar"));
    const read = (place: unknown) => () => summaryFromPlain({ ...summary, place }, "receipt");
    for (const shard of ["..", "../w1", "a/b", "", ".hidden", "a\\b", "x".repeat(101), 7]) {
      expect(read({ ...summary.place, shard })).toThrow("receipt.place.shard");
    }
    expect(read({ ...summary.place, offset: -1 })).toThrow("receipt.place.offset");
    expect(read({ ...summary.place, length: 2 ** 60 })).toThrow("receipt.place.length");
    expect(read({ ...summary.place, crc32: "xyz" })).toThrow("receipt.place.crc32");
    expect(() => summaryFromPlain(null, "receipt")).toThrow("receipt");
    const store = createFileRunStore(newFolder());
    await store.begin(manifest);
    await expect(store.appendIndexed(summary)).rejects.toThrow("names no shard, or the run has none");
    await store.close(manifest);
  });
});
