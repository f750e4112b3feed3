import { appendFile, mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { AttributedError, ConfigurationError, type Episode, type GroupRecord } from "../core/index.ts";
import { createRandom } from "../lib/random.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { JsonFloat, type JsonObject, type JsonValue } from "../python-semantics/json/value.ts";
import { flipped, sampleEpisode, withChecksum } from "./sample-episode.test-helper.ts";
import {
  createFileRunStore,
  createMemoryRunStore,
  episodeFromJson,
  episodeLine,
  openRunFolder,
  readEpisodes,
  resumeFileRunStore,
  type RunReader,
  type RunStore,
  type TornLine,
} from "./index.ts";
import { BatchQueue } from "./lines.ts";

const manifest: JsonObject = new Map<string, JsonValue>([
  ["format", 4],
  ["sharded", false],
]);
const endingWith = (end: JsonValue): JsonObject => new Map([["end", end]]);
let folder = "";
let made = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "run-store-"));
});
afterAll(() => rm(folder, { recursive: true }));

const newFolder = (): string => join(folder, `run-${made++}`, "deep");

const groupOf = ({ id, groupId, task, reward }: Episode): GroupRecord => ({
  groupId,
  taskId: task.id,
  groupIndex: 3,
  decision: reward === null ? "dropped" : "kept",
  reason: reward === null ? "not-graded" : null,
  episodeIds: [id, `${id} \ud800`],
  rewards: [reward, null],
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

const stores: readonly { readonly name: string; readonly make: () => { store: RunStore; reader: () => RunReader } }[] =
  [
    {
      name: "memory",
      make: () => {
        const store = createMemoryRunStore();
        return { store, reader: () => store };
      },
    },
    {
      name: "files",
      make: () => {
        const path = newFolder();
        return { store: createFileRunStore(path), reader: () => openRunFolder(path) };
      },
    },
  ];

describe.each(stores)("RunStore ($name)", ({ make }) => {
  it("gives back episodes, rows and manifest as they were, in the order of the calls", async () => {
    const { store, reader } = make();
    await store.begin(manifest);
    expect(await reader().manifest()).toEqual(manifest);
    const episodes = Array.from({ length: 40 }, (_, index) => sampleEpisode(`ep ${index}`));
    await Promise.all(
      episodes.flatMap((episode, index) => [
        store.append(episode),
        store.appendGroup({
          group: groupOf(episode),
          sampleLines: index % 3 === 0 ? [] : [`{"index":${index}}`, `{"again":${index}}`],
        }),
      ]),
    );
    await store.close(endingWith(40));
    expect(await all(reader().episodes())).toEqual(episodes);
    const wanted = episodes.flatMap((_, index) =>
      index % 3 === 0 ? [] : [`{"index":${index}}`, `{"again":${index}}`],
    );
    expect(await all(reader().sampleLines())).toEqual(wanted);
    expect(await all(reader().groups())).toEqual(episodes.map(groupOf));
    expect((await reader().manifest()).get("end")).toBe(40);
  });

  it("shows what was appended so far to a reader that comes before the end", async () => {
    const { store, reader } = make();
    await store.begin(manifest);
    await store.append(sampleEpisode("first"));
    await store.appendGroup({ group: groupOf(sampleEpisode("first")), sampleLines: ["{}"] });
    expect((await all(reader().episodes())).map(({ id }) => id)).toEqual(["first"]);
    expect(await all(reader().sampleLines())).toEqual(["{}"]);
    await store.close(manifest);
  });

  it("refuses to append before begin and after close, and closes once", async () => {
    const { store, reader } = make();
    const record = sampleEpisode("x");
    await expect(store.append(record)).rejects.toThrow("call begin first");
    await expect(store.close(manifest)).rejects.toThrow("call begin first");
    await store.begin(manifest);
    await store.close(endingWith("first"));
    await store.close(endingWith("second"));
    expect((await reader().manifest()).get("end")).toBe("first");
    await expect(store.append(record)).rejects.toThrow("it is closed");
  });
});

describe("createFileRunStore()", () => {
  it("makes a folder with four files, and a fifth for rows, and leaves no draft", async () => {
    const path = newFolder();
    const store = createFileRunStore(path);
    await store.begin(manifest);
    await store.close(manifest);
    expect((await readdir(path)).toSorted()).toEqual(["episodes.jsonl", "groups.jsonl", "index.jsonl", "run.json"]);
  });

  it("refuses a folder that is not empty, naming what is in it, and changes nothing", async () => {
    const path = newFolder();
    const first = createFileRunStore(path);
    await first.begin(manifest);
    const before = await readFile(join(path, "run.json"), "utf8");
    const second = createFileRunStore(path);
    await expect(second.begin(new Map())).rejects.toThrow(ConfigurationError);
    await expect(second.begin(new Map())).rejects.toThrow('not empty (it holds "episodes.jsonl")');
    expect(await readFile(join(path, "run.json"), "utf8")).toBe(before);
    await first.close(manifest);
  });

  it("attributes a fault to boundary store and repeats it from then on", async () => {
    const unheard: unknown[] = [];
    const hear = (error: unknown): number => unheard.push(error);
    process.on("unhandledRejection", hear);
    const last = new BatchQueue<number>(() => Promise.reject(new Error("disk full")));
    await expect(last.add(1)).rejects.toThrow("disk full");
    // Node reports an unhandled rejection only after the microtasks of the same event loop tick.
    await new Promise((done) => setTimeout(done, 10));
    process.off("unhandledRejection", hear);
    expect(unheard).toEqual([]);
    const queue = new BatchQueue<number>(async (batch) => {
      if (batch.includes(2)) throw new Error("disk full");
    });
    await queue.add(1);
    const second = queue.add(2);
    await expect(second).rejects.toThrow("disk full");
    await expect(queue.add(3)).rejects.toThrow("disk full");
    await queue.idle();
    const path = newFolder();
    await writeFile(join(folder, "a file"), "");
    await expect(createFileRunStore(join(folder, "a file", "run")).begin(manifest)).rejects.toThrow("name another");
    const store = createFileRunStore(path);
    await store.begin(manifest);
    const broken: Episode = { ...sampleEpisode("broken"), info: new Map([["bad", Symbol("x") as never]]) };
    const rejected = await store.append(broken).catch((error: unknown) => error);
    expect(rejected).toBeInstanceOf(AttributedError);
    expect(String(rejected)).toContain('Cannot store episode "broken"');
    await store.close(manifest);
  });

  it("takes secrets out of everything that it writes", async () => {
    const path = newFolder();
    const store = createFileRunStore(path, { redact: (text) => text.replaceAll("canary-key", "***") });
    const episode: Episode = {
      ...sampleEpisode("ep"),
      info: new Map([["said", "the canary-key!"]]),
      groupId: "of canary-key",
    };
    await store.begin(new Map([["key", "canary-key"]]));
    await store.append(episode);
    await store.appendGroup({
      group: { ...groupOf(episode), reason: "canary-key" },
      sampleLines: ['{"text":"canary-key"}'],
    });
    await store.close(new Map([["key", "canary-key"]]));
    for (const file of await readdir(path)) {
      const text = await readFile(join(path, file), "utf8");
      expect(text).not.toContain("canary-key");
      expect(text).toContain("***");
    }
  });
});

describe("openRunFolder()", () => {
  it("leaves out a last line that was cut at any byte, and reports it", async () => {
    const path = newFolder();
    const store = createFileRunStore(path);
    await store.begin(manifest);
    await store.append(sampleEpisode("one"));
    await store.append(sampleEpisode("two"));
    await store.close(manifest);
    const file = join(path, "episodes.jsonl");
    const whole = await readFile(file);
    const secondStart = whole.indexOf(0x0a) + 1;
    for (let length = secondStart; length < whole.length; length += 97) {
      const handle = await open(file, "r+");
      await handle.truncate(length);
      await handle.close();
      const torn: TornLine[] = [];
      const ids = (await all(openRunFolder(path, { onTornLine: (line) => torn.push(line) }).episodes())).map(
        ({ id }) => id,
      );
      expect(ids).toEqual(["one"]);
      expect(torn).toEqual(length === secondStart ? [] : [{ file, bytes: length - secondStart }]);
      await writeFile(file, whole);
    }
  });

  it("names the line that cannot be read", async () => {
    const path = newFolder();
    const store = createFileRunStore(path);
    await store.begin(manifest);
    await store.append(sampleEpisode("one"));
    await store.close(manifest);
    await appendFile(join(path, "episodes.jsonl"), withChecksum('{"id": 3'));
    await expect(all(openRunFolder(path).episodes())).rejects.toThrow(/line 2\.id: it is number, expected a text/);
  });

  it("says what is missing when the folder is no run", () => {
    expect(() => openRunFolder(join(folder, "nowhere"))).toThrow("there is no such folder");
    expect(() => openRunFolder(folder)).toThrow('it has no "run.json"');
  });
});

describe("the checksum of a line", () => {
  /**
   * A run of two episodes and their groups, with the faults and torn lines that every reader and a
   * resume report.
   */
  async function finishedRun() {
    const path = newFolder();
    const store = createFileRunStore(path);
    await store.begin(manifest);
    for (const id of ["one", "two"]) {
      await store.append(sampleEpisode(id));
      const group = { ...groupOf(sampleEpisode(id)), groupId: `of ${id}`, episodeIds: [id], rewards: [1] };
      await store.appendGroup({ group, sampleLines: ["{}"] });
    }
    await store.close(manifest);
    const failures = async (file: string): Promise<readonly string[]> => {
      const torn: TornLine[] = [];
      const reader = openRunFolder(path, { onTornLine: (line) => torn.push(line) });
      const resume = async (): Promise<void> => {
        const run = await resumeFileRunStore(path);
        torn.push(...run.torn);
        await run.release();
      };
      const readers = [
        file === "groups.jsonl" ? all(reader.groups()) : all(reader.episodes()),
        ...(file === "groups.jsonl" ? [] : [all(readEpisodes(path, { onTornLine: (line) => torn.push(line) }))]),
        resume(),
      ];
      const ends = await Promise.allSettled(readers);
      const errors = ends.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []));
      return [...errors, ...torn.map(() => "torn")];
    };
    return { path, failures };
  }

  it("is CRC-32 of what stands before it, as anybody can check", async () => {
    const { path } = await finishedRun();
    for (const file of ["episodes.jsonl", "groups.jsonl"]) {
      const lines = (await readFile(join(path, file), "utf8")).trimEnd().split("\n");
      expect(lines).toHaveLength(2);
      for (const line of lines) expect(`${line}\n`).toBe(withChecksum(line.slice(0, -20)));
    }
  });

  it.each(["episodes.jsonl", "groups.jsonl"])("finds a changed byte anywhere in %s, for every reader", async (name) => {
    const { path, failures } = await finishedRun();
    const file = join(path, name);
    const whole = await readFile(file);
    expect(await failures(name)).toEqual([]);
    const firstEnd = whole.indexOf(0x0a);
    const random = createRandom(7);
    const places = Array.from({ length: 150 }, () => random.integer(whole.length - 1));
    for (const at of [0, 1, firstEnd - 1, firstEnd, firstEnd + 1, whole.length - 2, ...places]) {
      await writeFile(file, flipped(whole, at, random.integer(255)));
      const found = await failures(name);
      expect(found).toHaveLength(name === "groups.jsonl" ? 2 : 3);
      const line = at <= firstEnd ? 1 : 2;
      for (const error of found) expect(error).toContain(`Cannot read "${file}" line ${line}`);
    }
    // A line without its line end looks unfinished.
    await writeFile(file, flipped(whole, whole.length - 1));
    expect(new Set(await failures(name))).toEqual(new Set(["torn"]));
  });

  it("says which episode or group it was, and what to do", async () => {
    const { path, failures } = await finishedRun();
    for (const [name, wanted] of [
      ["episodes.jsonl", 'line 2 (episode "two"): it is not what was written; its checksum is another one. Restore'],
      ["groups.jsonl", 'line 2 (group "of two"): it is not what was written; its checksum is another one. Restore'],
    ] as const) {
      const whole = await readFile(join(path, name));
      await writeFile(join(path, name), flipped(whole, whole.length - 40));
      for (const error of await failures(name)) expect(error).toContain(wanted);
      await writeFile(join(path, name), whole);
    }
  });

  it("finds the changed line of an episode that is read by its id", async () => {
    const path = newFolder();
    const store = createFileRunStore(path);
    await store.begin(manifest);
    for (const id of ["one", "two"]) await store.append(sampleEpisode(id));
    expect((await store.kept("two"))?.id).toBe("two");
    const file = join(path, "episodes.jsonl");
    const whole = await readFile(file);
    await writeFile(file, flipped(whole, whole.length - 100));
    await expect(store.kept("two")).rejects.toThrow("its checksum is another one");
    expect((await store.kept("one"))?.id).toBe("one");
    await store.close(manifest);
  });

  it("is needed in every line; another format is refused", async () => {
    const { path, failures } = await finishedRun();
    const names = ["episodes.jsonl", "groups.jsonl"];
    for (const name of names) {
      const text = await readFile(join(path, name), "utf8");
      await writeFile(join(path, name), text.replaceAll(/,"crc32":"\w{8}"\}$/gm, "}"));
    }
    for (const name of names) {
      for (const error of await failures(name)) expect(error).toContain("it has no checksum at its end");
    }
    for (const text of ['{"format": 1}', '{"format": 5}', "{}"]) {
      await writeFile(join(path, "run.json"), text);
      const refused = [...(await failures("episodes.jsonl")), ...(await failures("groups.jsonl"))];
      expect(refused).toHaveLength(5);
      for (const error of refused) expect(error).toContain("and this version reads format 4; use the version");
    }
    expect(await readdir(path)).not.toContain("run.lock");
  });
});

describe("episodeLine()", () => {
  it("is one line, whatever the texts hold, and reads back without loss", () => {
    const info = new Map<string, JsonValue>([
      ["2", new JsonFloat(100)],
      ["1", 100],
      ["big", 2n ** 70n],
      ["nan", new JsonFloat(NaN)],
      ["text", "a\nb\u2028c\ud800d"],
    ]);
    const episode: Episode = { ...sampleEpisode("e"), info };
    const line = episodeLine(episode);
    expect(line).not.toContain("\n");
    expect(Buffer.from(line, "utf8").toString("utf8")).toBe(line);
    const read = episodeFromJson(parseJson(line), "here");
    expect(read).toEqual(episode);
    expect([...read.info.keys()]).toEqual(["2", "1", "big", "nan", "text"]);
  });

  it("writes the fields that may be absent where they are there, and reads them back", () => {
    const { events, ...facts } = sampleEpisode("e");
    const without = episodeLine({ ...facts, events });
    expect(without).not.toMatch(/turnRewards|"info":\{[^}]*\},"reward"/);
    const turnRewards = [0.25, null, -1];
    const rewarded = events.map((event) => {
      if (event.type === "tool-result") return { ...event, result: { ...event.result, reward: -0.5 } };
      return event.type === "grade" ? { ...event, grade: { ...event.grade, turnRewards } } : event;
    });
    const line = episodeLine({ ...facts, events: rewarded });
    expect(line).toContain('"reward":-0.5');
    expect(line).toContain('"turnRewards":[0.25,null,-1]');
    expect(episodeFromJson(parseJson(line), "here").events).toEqual(rewarded);
  });

  it("is the JSON of the episode, byte for byte as Python writes it", () => {
    for (const long of ['"quoted"\n\u0001\u007f\u2028é\\ '.repeat(40), "x".repeat(20_000), "y"]) {
      const episode = { ...sampleEpisode(long), groupId: long };
      const line = episodeLine(episode);
      expect(line).toBe(dumpJson(parseJson(line), { separators: [",", ":"] }));
    }
  });

  it("keeps every kind of event", () => {
    const types = sampleEpisode("e").events.map(({ type }) => type);
    expect(new Set(types).size).toBe(7);
  });
});
