import {
  appendFile,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  truncate,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Episode, GroupRecord } from "../core/index.ts";
import { createRandom, type Random } from "../lib/random.ts";
import { flipped, sampleEpisode } from "./sample-episode.test-helper.ts";
import {
  createFileRunStore,
  type EpisodeSummary,
  mergeShards,
  openRunFolder,
  openShard,
  resumeFileRunStore,
  type RunFolder,
  type TornLine,
} from "./index.ts";

let root = "";
let cacheFolder = "";
let made = 0;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "run-folder-"));
  cacheFolder = join(root, "cache");
});
afterAll(() => rm(root, { recursive: true }));

const newFolder = (): string => join(root, `run-${made++}`);
const open = (folder: string, torn?: TornLine[]): RunFolder =>
  openRunFolder(folder, { cacheFolder, onTornLine: (line) => torn?.push(line) });

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const ids = (rows: readonly { readonly id: string }[]): string[] => rows.map(({ id }) => id);

function episode(id: string, changes: Partial<Episode> = {}): Episode {
  return { ...sampleEpisode(id), groupId: id.split("#")[0] ?? id, ...changes };
}

const graded = (id: string, reward: number, changes: Partial<Episode> = {}): Episode =>
  episode(id, { outcome: "completed", stopReason: "tool_ended", failure: null, reward, ...changes });

const groupOf = (groupId: string, members: readonly Episode[], groupIndex = 0): GroupRecord => ({
  groupId,
  taskId: "desk:train:3",
  groupIndex,
  decision: "kept",
  reason: null,
  episodeIds: ids(members),
  rewards: members.map(({ reward }) => reward),
});

async function runOf(episodes: readonly Episode[], groups: readonly GroupRecord[] = []): Promise<string> {
  const folder = newFolder();
  const store = createFileRunStore(folder);
  await store.begin(new Map());
  await Promise.all(episodes.map((one) => store.append(one)));
  for (const group of groups) await store.appendGroup({ group, sampleLines: [] });
  await store.close(new Map());
  return folder;
}

const many = Array.from({ length: 400 }, (_, at) => graded(`g${at >> 2}#${at % 4}`, at % 3 === 0 ? 1 : 0));

describe("RunFolder", () => {
  it("pages from the newest episode to the first, each once", async () => {
    const reader = open(await runOf(many));
    const seen: EpisodeSummary[] = [];
    let page = await reader.page({ count: 37 });
    while (page.rows.length > 0) {
      expect(page.total).toBe(400);
      seen.push(...page.rows);
      page = await reader.page({ count: 37, before: seen.at(-1)?.number ?? 1 });
    }
    expect(ids(seen)).toEqual(ids(many).toReversed());
    expect(seen.map(({ number }) => number)).toEqual(Array.from({ length: 400 }, (_, at) => 400 - at));
    expect((await reader.page({ count: 5, before: 3 })).rows.map(({ number }) => number)).toEqual([2, 1]);
    expect((await reader.page({ count: 5, before: 10_000 })).rows).toHaveLength(5);
    for (const count of [0, -1, 1.5, Number.NaN]) await expect(reader.page({ count })).rejects.toThrow("count is");
    const none = await open(await runOf([])).page({ count: 5 });
    expect([none.rows, none.total]).toEqual([[], 0]);
  });

  it("finds an episode by number, by id and by its row, and says where there is none", async () => {
    const reader = open(await runOf(many));
    for (const number of [1, 2, 199, 400]) {
      const expected = many[number - 1]!;
      expect(await reader.episode(number)).toEqual(expected);
      expect(await reader.episode(expected.id)).toEqual(expected);
      expect(await reader.episode((await reader.summary(number))!)).toEqual(expected);
    }
    for (const none of [0, -1, 401, 1.5, Number.NaN, "g0#9", ""]) expect(await reader.episode(none)).toBeNull();
  });

  it("filters by what the index and the groups say", async () => {
    const members = [graded("a#0", 1), graded("a#1", 0), graded("a#2", 0.5)];
    const run = [...members, graded("b#0", 1), episode("b#1"), graded("b#2", 0)];
    const reader = open(await runOf(run, [groupOf("a", members.slice(0, 2))]));
    const found = async (where: string): Promise<string[]> => ids(await all(reader.filter(where)));
    expect(await found("reward < 1")).toEqual(["a#1", "a#2", "b#2"]);
    expect(await found('decision == "kept"')).toEqual(["a#0", "a#1"]);
    expect(await found('decision == "dropped"')).toEqual(["a#2"]);
    expect(await found('decision == "undecided" and group_mean == 0.5')).toEqual(["b#0", "b#1", "b#2"]);
    expect(await found('group_id == "a" and group_mean == 0.5')).toEqual(["a#0", "a#1", "a#2"]);
    expect(await found('outcome == "failed" or problems > 1')).toEqual(["b#1"]);
    expect(() => reader.filter("reward <")).toThrow("expected a value here");
  });

  it("finds a text in the messages alone, whatever it is made of, and where it stands", async () => {
    const text = 'He said "ünïcödé \ud83d\ude00"\nand\\or \ud800.';
    const run = [
      episode("a", { messages: [{ role: "user", content: `${"x".repeat(99)}${text}${text}y` }] }),
      episode("b", { messages: [], info: new Map([["note", text]]) }),
      episode("c", {
        messages: [
          {
            role: "assistant",
            content: "",
            reasoning: text,
            toolCalls: [{ id: "i", name: "find", argumentsText: text }],
          },
        ],
      }),
    ];
    const reader = open(await runOf(run));
    const hits = await all(reader.search(text));
    expect(hits.map(({ number, id, message, role }) => [number, id, message, role])).toEqual([
      [1, "a", 0, "user"],
      [1, "a", 0, "user"],
      [3, "c", 0, "assistant"],
      [3, "c", 0, "assistant"],
    ]);
    expect([hits[0]?.before, hits[1]?.after]).toEqual(["x".repeat(60), "y"]);
    expect(await all(reader.search("nowhere"))).toEqual([]);
    await expect(all(reader.search(""))).rejects.toThrow("Cannot search for an empty string");
  });

  it("gives what was written since, also across the death of the writer and its successor", async () => {
    const folder = newFolder();
    const store = createFileRunStore(folder);
    await store.begin(new Map());
    const reader = open(folder);
    let { position } = await reader.page({ count: 10 });
    const since = async (): Promise<readonly [string[], string[], boolean]> => {
      const changes = await reader.changesSince(JSON.parse(JSON.stringify(position)) as typeof position, { count: 2 });
      ({ position } = changes);
      return [ids(changes.rows), changes.groups.map(({ groupId }) => groupId), changes.isReset];
    };
    expect(await since()).toEqual([[], [], false]);
    const members = [graded("a#0", 1), graded("a#1", 0), graded("a#2", 0)];
    for (const one of members) await store.append(one);
    await store.appendGroup({ group: groupOf("a", members), sampleLines: [] });
    expect(await since()).toEqual([["a#0", "a#1"], ["a"], false]);
    expect(await since()).toEqual([["a#2"], [], false]);
    // The process dies in the middle of a line of both files.
    await appendFile(join(folder, "episodes.jsonl"), '{"id":"torn');
    await appendFile(join(folder, "index.jsonl"), '{"number":4,');
    await rm(join(folder, "run.lock"));
    expect(await since()).toEqual([[], [], false]);
    const next = (await resumeFileRunStore(folder)).store;
    await next.begin(new Map());
    expect(await since()).toEqual([[], [], false]);
    await next.append(graded("b#0", 1));
    expect(await since()).toEqual([["b#0"], [], false]);
    await next.close(new Map());
    // Another run in the same folder.
    await rm(folder, { recursive: true });
    await copyFolder(await runOf([graded("z#0", 1)]), folder);
    expect(await since()).toEqual([[], [], true]);
    expect([position.number, position.id]).toEqual([1, "z#0"]);
    await store.close(new Map()).catch(() => undefined);
  });

  it("reports the torn end of episodes, and shows an episode that the index does not name yet", async () => {
    const folder = await runOf(many.slice(0, 5));
    const [index, file] = [join(folder, "index.jsonl"), join(folder, "episodes.jsonl")];
    await truncate(index, (await readFile(index)).indexOf("\n") + 30);
    await appendFile(file, '{"id":"torn');
    const torn: TornLine[] = [];
    const reader = open(folder, torn);
    expect(ids(await all(reader.summaries()))).toEqual(ids(many.slice(0, 5)));
    expect(torn).toEqual([{ file, bytes: 11 }]);
    expect((await reader.summary(5))?.id).toBe("g1#0");
    expect((await reader.page({ count: 2 })).rows.map(({ number }) => number)).toEqual([5, 4]);
    expect(ids(await all(reader.filter("reward == 1")))).toEqual(["g0#0", "g0#3"]);
  });
});

/** Copies the files of a finished run. */
async function copyFolder(from: string, to: string): Promise<void> {
  await mkdir(to);
  for (const name of await readdir(from)) await copyFile(join(from, name), join(to, name));
}

describe("a run without an index of its own", () => {
  it("is read once, and its index is kept outside it until the episodes change in another way than by growing", async () => {
    const folder = await runOf(many.slice(0, 20));
    const file = join(folder, "episodes.jsonl");
    const whole = await readFile(file);
    const tenth = (await open(folder).summary(10))!.place;
    const firstTen = whole.subarray(0, tenth.offset + tenth.length + 1);
    await rm(join(folder, "index.jsonl"));
    await writeFile(file, firstTen);
    const [atime, mtime] = [new Date(1_700_000_000_000), new Date(1_700_000_100_000)];
    await utimes(file, atime, mtime);
    const names = (await readdir(folder)).toSorted();
    await rm(cacheFolder, { recursive: true, force: true });
    const read = async (): Promise<string[]> => ids(await all(open(folder).summaries()));
    expect(await read()).toEqual(ids(many.slice(0, 10)));
    const [name = ""] = await readdir(cacheFolder);
    const cached = join(cacheFolder, name);
    const before = await readFile(cached);
    // The index is not read again: a changed byte in the middle, with the old modification time,
    // goes unnoticed until the episode is opened.
    await writeFile(file, flipped(firstTen, 300));
    await utimes(file, atime, mtime);
    expect(await read()).toEqual(ids(many.slice(0, 10)));
    await expect(open(folder).episode(1)).rejects.toThrow("its checksum is another one");
    // A new modification time makes the reader read the file again and find the change.
    await utimes(file, atime, new Date(mtime.getTime() + 5000));
    await expect(read()).rejects.toThrow('episodes.jsonl" line 1 (episode "g0#0")');
    expect((await readdir(cacheFolder)).filter((one) => one !== name)).toEqual([]);
    // If the file has grown, only the rest is read.
    await writeFile(file, firstTen);
    await utimes(file, atime, mtime);
    await writeFile(file, whole);
    expect(await read()).toEqual(ids(many.slice(0, 20)));
    const grown = await readFile(cached, "utf8");
    expect(grown.startsWith(before.toString().split("\n").slice(0, 10).join("\n"))).toBe(true);
    // For other episodes the index is made again.
    await copyFile(join(await runOf([graded("other", 1), graded("episodes", 0)]), "episodes.jsonl"), file);
    expect(await read()).toEqual(["other", "episodes"]);
    expect((await readdir(folder)).toSorted()).toEqual(names);
  });

  it("has the rows that its own index had, of every kind of episode", async () => {
    const base = sampleEpisode("x");
    const [turn] = base.trajectory.turns;
    const long = Uint32Array.from({ length: 1000 }, (_, at) => at);
    const folder = await runOf([
      ...many.slice(0, 9),
      base,
      graded("branches", 0.25),
      graded("none", Number.NaN),
      episode("api", { historyPolicy: "no-tokens", trajectory: { turns: [] }, events: [] }),
      episode("ungraded", { grade: null, outcome: "aborted", stopReason: "cancelled", failure: null }),
      ...[0, 1, 2, 3, 1000].map((length) =>
        graded(`length ${length}`, 1, {
          trajectory: { turns: [{ ...turn!, sampledTokens: long.subarray(0, length) }] },
        }),
      ),
      graded("named", 0, { grade: { ...base.grade!, info: new Map([["termination_reason", "too_many_errors"]]) } }),
    ]);
    const rows = await all(open(folder).summaries());
    expect(rows.at(-1)?.ending).toBe("too_many_errors");
    await rm(join(folder, "index.jsonl"));
    expect(await all(open(folder).summaries())).toEqual(rows);
  });

  it("follows a file that grows, and a cache that is damaged or cannot be written changes nothing", async () => {
    const folder = await runOf(many.slice(0, 6));
    const file = join(folder, "episodes.jsonl");
    const whole = await readFile(file);
    const second = (await open(folder).summary(2))!.place;
    await rm(join(folder, "index.jsonl"));
    await truncate(file, second.offset + second.length + 1);
    const nowhere = join(root, "a file");
    await writeFile(nowhere, "");
    const readers = [open(folder), openRunFolder(folder, { cacheFolder: join(nowhere, "cache") })];
    for (const reader of readers) expect(ids(await all(reader.summaries()))).toEqual(["g0#0", "g0#1"]);
    const { position } = await readers[0]!.page({ count: 1 });
    await writeFile(file, whole);
    for (const reader of readers) {
      expect(ids((await reader.changesSince(position)).rows)).toEqual(["g0#2", "g0#3", "g1#0", "g1#1"]);
      expect((await reader.episode("g1#1"))?.id).toBe("g1#1");
    }
    for (const name of await readdir(cacheFolder)) {
      const cached = join(cacheFolder, name);
      for (const damage of [Buffer.from("nonsense"), flipped(await readFile(cached), 20), Buffer.alloc(0)]) {
        await writeFile(cached, damage);
        expect(ids(await all(open(folder).summaries()))).toEqual(ids(many.slice(0, 6)));
        await writeFile(cached, damage);
        expect((await open(folder).episode("g1#1"))?.id).toBe("g1#1");
      }
    }
  });

  it("is read in place of an index that was damaged, or that is of another run", async () => {
    const folder = await runOf(many.slice(0, 40));
    const index = join(folder, "index.jsonl");
    const whole = await readFile(index);
    const wanted = ids(many.slice(0, 40));
    const lines = whole.toString().split("\n");
    const foreign = await readFile(join(await runOf(many.slice(40, 80)), "index.jsonl"));
    for (const bytes of [
      ...[300, whole.length >> 1, whole.length - 50].map((at) => flipped(whole, at)),
      Buffer.from(lines.toSpliced(3, 1).join("\n")),
      Buffer.from(lines.toSpliced(3, 0, lines[2]!).join("\n")),
      foreign,
      Buffer.from(`${"x".repeat(200_000)}\n${whole.toString()}`),
      Buffer.from(`${whole.toString()}${"\n".repeat(100)}`),
      Buffer.alloc(0),
    ]) {
      await writeFile(index, bytes);
      const reader = open(folder);
      expect(ids(await all(reader.summaries()))).toEqual(wanted);
      expect(ids((await reader.page({ count: 40 })).rows)).toEqual(wanted.toReversed());
      expect((await open(folder).episode("g9#3"))?.id).toBe("g9#3");
      expect((await open(folder).episode(17))?.id).toBe("g4#0");
    }
  });

  it("is refused where turns name parents that do not come before them", async () => {
    const base = sampleEpisode("x");
    const turns = base.trajectory.turns.map((turn) => ({ ...turn, parent: turn.index === 0 ? 2 : turn.parent }));
    const folder = newFolder();
    const store = createFileRunStore(folder);
    await store.begin(new Map());
    await store.append({ ...base, historyPolicy: "no-tokens", trajectory: { turns } });
    await store.close(new Map());
    await rm(join(folder, "index.jsonl"));
    await expect(all(open(folder).summaries())).rejects.toThrow("it is turn 0 after turn 2");
  });
});

/** The same episodes in a run of one process, and in a run whose workers wrote them. */
async function twoRuns(random: Random, groups: readonly (readonly Episode[])[]): Promise<readonly [string, string]> {
  const one = newFolder();
  const sharded = newFolder();
  const [single, coordinator] = [createFileRunStore(one), createFileRunStore(sharded, { hasShards: true })];
  for (const store of [single, coordinator]) await store.begin(new Map());
  const shards = await Promise.all(["w1", "w2", "w3"].map((name) => openShard(sharded, name)));
  for (const [groupIndex, members] of groups.entries()) {
    for (const member of members) {
      await single.append(member);
      const at = Math.floor(random.next() * 4);
      if (at === 3) {
        await coordinator.append(member);
        continue;
      }
      const receipt = await shards[at]!.append(member);
      // Another worker was slower, and the receipt of a third one never arrived.
      if (random.next() < 0.3) await shards[(at + 1) % 3]!.append({ ...member, seed: 1 });
      await coordinator.appendIndexed(receipt);
    }
    const group = groupOf(members[0]!.groupId, members, groupIndex);
    for (const store of [single, coordinator])
      await store.appendGroup({ group, sampleLines: [`{"of":${groupIndex}}`] });
  }
  for (const shard of shards) await shard.close();
  for (const store of [single, coordinator]) await store.close(new Map());
  return [one, sharded];
}

/** Everything that a reader returns, without places. */
async function readingOf(folder: string) {
  const reader = open(folder);
  const rows = (await all(reader.summaries())).map((row) => ({ ...row, place: null }));
  const hits = (await all(reader.search("hi"))).toSorted((a, b) => a.number - b.number || a.message - b.message);
  return {
    rows,
    hits,
    episodes: await all(reader.episodes()),
    groups: await all(reader.groups()),
    lines: await all(reader.sampleLines()),
    newest: (await reader.page({ count: 7 })).rows.map(({ id }) => id),
    filtered: ids(await all(reader.filter("group_mean > 0.4 and sample_index == 1"))),
    byId: await Promise.all(rows.map(({ id }) => reader.episode(id))),
  };
}

describe("a run with shards", () => {
  it("reads like the run of one process, whichever worker wrote what", async () => {
    for (const seed of [1, 2, 3]) {
      const random = createRandom(seed);
      const groups = Array.from({ length: 6 }, (_, group) =>
        Array.from({ length: 3 }, (__, at) => graded(`g${group}#${at}`, Math.round(random.next() * 2) / 2)),
      );
      const [one, sharded] = await twoRuns(random, groups);
      const [expected, found] = [await readingOf(one), await readingOf(sharded)];
      expect(found).toEqual(expected);
      const merged = newFolder();
      await mergeShards(sharded, merged);
      expect(await readingOf(merged)).toEqual(expected);
      expect(expected.hits.length).toBeGreaterThan(17);
    }
  });

  it("names the place of a line that is not what was written, and counts nothing that the index does not name", async () => {
    const [, sharded] = await twoRuns(createRandom(5), [many.slice(0, 4), many.slice(4, 8)]);
    const index = join(sharded, "index.jsonl");
    const whole = await readFile(index);
    const rows = await all(open(sharded).summaries());
    const afar = rows.find(({ place }) => place.shard !== null)!;
    const file = join(sharded, "shards", afar.place.shard!, "episodes.jsonl");
    const bytes = await readFile(file);
    const failure = (): Promise<string> =>
      open(sharded)
        .episode(afar.id)
        .then(() => "read", String);
    await writeFile(file, flipped(bytes, afar.place.offset + 40));
    expect(await failure()).toContain(
      `Cannot read episode "${afar.id}" in "${file}" at byte ${afar.place.offset}: it is not`,
    );
    await writeFile(file, bytes.subarray(0, afar.place.offset + 9));
    expect(await failure()).toContain("the file ends at byte");
    await rm(file);
    expect(await failure()).toContain("ENOENT");
    await expect(all(open(sharded).episodes())).rejects.toThrow("remove the line of the episode from index.jsonl");
    await writeFile(file, bytes);
    expect(await failure()).toBe("read");
    // A torn end is omitted; a corrupted line throws, since no other record decides which lines
    // count.
    const torn: TornLine[] = [];
    await writeFile(index, Buffer.concat([whole, Buffer.from('{"number":')]));
    expect(ids(await all(open(sharded, torn).summaries()))).toEqual(ids(rows));
    expect(torn).toEqual([{ file: index, bytes: 10 }]);
    await writeFile(index, flipped(whole, 100));
    await expect(all(open(sharded).summaries())).rejects.toThrow("its checksum is another one");
    await writeFile(index, whole.toString().split("\n").slice(0, 3).join("\n") + "\n");
    expect(ids(await all(open(sharded).episodes()))).toEqual(ids(rows.slice(0, 3)));
    expect(await all(open(sharded).search("no such text"))).toEqual([]);
    await rm(index);
    await expect(all(open(sharded).summaries())).rejects.toThrow("which says which entries of its shards count");
  });
});
