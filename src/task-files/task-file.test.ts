import { Buffer } from "node:buffer";
import { appendFile, copyFile, mkdir, mkdtemp, open, readdir, readFile, realpath, rm, stat, utimes, writeFile } from "node:fs/promises"; // prettier-ignore
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { openTaskFile } from "./task-file.ts";
import { type IndexOwner, readIndex, writeIndex } from "./task-index.ts";
import type { RowReader, TaskTable } from "./task-table.ts";

let folder = "";
let cache = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "task-file-"));
  cache = join(folder, "cache");
});
afterAll(() => rm(folder, { recursive: true }));

let rowsRead = 0;
const reader: RowReader = {
  name: "test-1",
  defaultSplit: "train",
  read: (fields) => {
    rowsRead++;
    const { id = null, split = "train", tag } = (fields ?? {}) as Readonly<Record<string, string | undefined>>;
    return { id, split, traits: tag === undefined ? [] : [tag] };
  },
};

async function openFile(name: string, content?: string | Buffer): Promise<TaskTable> {
  if (content !== undefined) await writeFile(join(folder, name), content);
  return openTaskFile(name, { cwd: folder, reader, flag: "--env-tasks", cache });
}

/** The rows of all splits, with their lines. */
function rowsOf(table: TaskTable): { readonly fields: unknown; readonly line: number }[] {
  return table.splits
    .flatMap(({ name, size }) => Array.from({ length: size }, (_, at) => table.row(name, at)))
    .map(({ fields, place }) => ({ fields, line: Number(/^line (\d+) of /.exec(place)![1]) }));
}

const long = "é".repeat(200_000);
const tenMegabytes = "x".repeat(10 * 2 ** 20);

test.each<[string, string, { readonly fields: unknown; readonly line: number }[]]>([
  ["a.jsonl", '\ufeff{"id": "a"}\r\n\n  \n[1]', [{ fields: { id: "a" }, line: 1 }, { fields: [1], line: 4 }]], // prettier-ignore
  ["long.jsonl", `{"a": "${long}"}\n{"b": "${long}"}\n`, [{ fields: { a: long }, line: 1 }, { fields: { b: long }, line: 2 }]], // prettier-ignore
  ["large.jsonl", `{"a":"${tenMegabytes}"}\n{"b":"${tenMegabytes}"}`, [{ fields: { a: tenMegabytes }, line: 1 }, { fields: { b: tenMegabytes }, line: 2 }]], // prettier-ignore
  ["empty.jsonl", "", []],
  ["mark.jsonl", "\ufeff", []],
  ["mark.csv", "\ufeff", []],
  ["header.csv", "a,b\r\n", []],
  [
    "a.csv",
    '\ufeff"id",text,reset\r\na,"x, ""y""\nz","{""seed"": 1}"\r\n\r\n"b",,[2]\n',
    [
      { fields: { id: "a", text: 'x, "y"\nz', reset: { seed: 1 } }, line: 2 },
      { fields: { id: "b", reset: [2] }, line: 5 },
    ],
  ],
  ["long.CSV", `a\n${long}`, [{ fields: { a: long }, line: 2 }]],
  ["large.csv", `a\n"${tenMegabytes}\n"\nb`, [{ fields: { a: `${tenMegabytes}\n` }, line: 2 }, { fields: { a: "b" }, line: 4 }]], // prettier-ignore
  ["quoted.csv", 'a\n""\nx"y', [{ fields: {}, line: 2 }, { fields: { a: 'x"y' }, line: 3 }]], // prettier-ignore
  ["proto.csv", "__proto__,constructor\na,b", [{ fields: JSON.parse('{"__proto__": "a", "constructor": "b"}'), line: 2 }]], // prettier-ignore
])("openTaskFile() reads %s, and again from its index", async (name, content, rows) => {
  expect(rowsOf(await openFile(name, content))).toEqual(rows);
  expect(rowsOf(await openFile(name))).toEqual(rows);
});

test.each([
  ["bad.jsonl", '{}\n{"a":', 'Cannot read line 2 of "bad.jsonl": it is not JSON ('],
  ["deep.jsonl", `${"[".repeat(200_000)}${"]".repeat(200_000)}`, 'line 1 of "deep.jsonl": it is nested too deeply'],
  ["utf.jsonl", Buffer.from([0x7b, 0x7d, 0x0a, 0x22, 0xff, 0x22]), 'line 2 of "utf.jsonl": it is not UTF-8'],
  ["twice.jsonl", '{"id":"a"}\n{"id":"b"}\n\n{"id":"a"}', 'line 4 of "twice.jsonl": it has the id "a" of the task on line 1'], // prettier-ignore
  ["utf.csv", Buffer.from([0x61, 0x0a, 0xc3]), 'line 2 of "utf.csv": it is not UTF-8'],
  ["short.csv", "a,b\n1\n", 'line 2 of "short.csv": it has 1 cells, and the header has 2'],
  ["twice.csv", "a,a\n", 'its column "a" has no name of its own'],
  ["open.csv", 'a\n"x\ny', 'line 2 of "open.csv": a quote does not end'],
  ["after.csv", 'a\n"x"y', 'line 2 of "after.csv": text follows a closing quote'],
  ["json.csv", "a\n{x\n", 'line 2 of "json.csv": it is not JSON'],
  ["wide.csv", ",".repeat(1001), "it has more than 1000 cells"],
])("openTaskFile() refuses %s", async (name, content, message) => {
  await expect(openFile(name, content)).rejects.toThrow(message);
});

test("openTaskFile() names what is not a file", async () => {
  await expect(openFile("none.jsonl")).rejects.toThrow('Cannot read "none.jsonl": there is no such file; correct --env-tasks.'); // prettier-ignore
  await expect(openFile(".")).rejects.toThrow("it is a folder");
});

test.each(["jsonl", "csv"])("openTaskFile() refuses a line of 1 GB after 16 MB of it, as %s", async (kind) => {
  const name = `gigabyte.${kind}`;
  const file = await open(join(folder, name), "w");
  // A file with a hole: nothing of it is on the disk.
  await file.truncate(2 ** 30);
  await file.close();
  const before = process.memoryUsage().rss;
  await expect(openFile(name)).rejects.toThrow(`line 1 of "${name}": it is longer than 16 MB`);
  expect(process.memoryUsage().rss - before).toBeLessThan(400 * 2 ** 20);
});

const line = (at: number): string =>
  JSON.stringify({ id: `t${at}`, split: at % 3 === 0 ? "test" : "train", ...(at % 2 === 0 ? { tag: "even" } : {}), text: "x".repeat(60) }); // prettier-ignore
const lines = (count: number): string => Array.from({ length: count }, (_, at) => `${line(at)}\n`).join("");
/** Enough rows that their index is kept. */
const many = 20_000;

test("a second opening reads the index and no row, and gives the same table", async () => {
  rowsRead = 0;
  const first = await openFile("many.jsonl", lines(many));
  expect(rowsRead).toBe(many);
  const second = await openFile("many.jsonl");
  expect(rowsRead).toBe(many);
  expect(second.splits).toEqual(first.splits);
  expect(second.size).toBe(many);
  expect([...second.traits]).toEqual([["even", { count: many / 2, first: 'line 1 of "many.jsonl"' }]]);
  expect([second.allHave("even"), second.allHave("odd")]).toEqual([false, false]);
  expect(first.splits.map(({ name, size }) => [name, size])).toEqual([["test", 6667], ["train", 13_333]]); // prettier-ignore
  for (const [split, index, at] of [
    ["test", 0, 0],
    ["test", 6666, 19_998],
    ["train", 0, 1],
    ["train", 13_332, 19_999],
  ] as const) {
    // prettier-ignore
    expect(second.row(split, index)).toEqual({
      fields: JSON.parse(line(at)) as unknown,
      text: line(at),
      place: `line ${at + 1} of "many.jsonl"`,
    });
  }
  expect(() => second.row("train", 13_333)).toThrow(RangeError);
  expect(() => second.row("dev", 0)).toThrow(RangeError);
});

test("the hash of a split is that of its rows and their order, not of the form of the file", async () => {
  const hashes = async (name: string, content: string) =>
    Object.fromEntries((await openFile(name, content)).splits.map(({ name: split, hash }) => [split, hash]));
  const base = await hashes("hash.jsonl", '{"id":"a"}\n{"id":"b","split":"test"}\n{"id":"c"}\n');
  expect(Object.keys(base)).toEqual(["train", "test"]);
  expect(base["train"]).toMatch(/^[0-9a-f]{64}$/);
  expect(await hashes("hash-2.jsonl", '\ufeff{ "id": "a" }\r\n\r\n{"id":"b","split":"test"}\r\n{"id":"c"}')).toEqual(base); // prettier-ignore
  expect(await hashes("hash.csv", "id,split\na,\nb,test\nc,\n")).toEqual(base);
  const swapped = await hashes("hash-3.jsonl", '{"id":"c"}\n{"id":"b","split":"test"}\n{"id":"a"}\n');
  expect(swapped["train"]).not.toBe(base["train"]);
  expect(swapped["test"]).toBe(base["test"]);
});

test("a file that changes after it is opened is not read with the old index", async () => {
  const name = "changing.jsonl";
  const path = join(folder, name);
  const table = await openFile(name, lines(many));
  const { atime, mtime } = await stat(path);
  const other = lines(many).replace('"t0"', '"u0"');
  await writeFile(path, other);
  await utimes(path, atime, mtime);
  const refusal = `Cannot read line 1 of "${name}": the file has changed since it was opened; restore it and resume the run, or start a new one.`;
  expect(() => table.row("test", 0)).toThrow(refusal);
  expect(() => table.row("test", 0)).toThrow(ConfigurationError);
  // The size and the time of the change are those of before; the index is made again nevertheless.
  const again = await openFile(name);
  expect(again.row("test", 0).fields).toMatchObject({ id: "u0" });
  expect(again.splits[0]!.hash).not.toBe(table.splits[0]!.hash);
  expect(again.splits[1]!.hash).toBe(table.splits[1]!.hash);
  await appendFile(path, "\n");
  expect(() => again.row("test", 0)).toThrow("has changed");
  await rm(path);
  expect(() => again.row("test", 0)).toThrow(`Cannot read "${name}": there is no such file`);
});

test("a row is compared with its hash, even if the index claims to be that of the changed file", async () => {
  const name = "forged.jsonl";
  const path = join(folder, name);
  const own = join(folder, "forged-cache");
  const openOwn = () => openTaskFile(name, { cwd: folder, reader, flag: "--env-tasks", cache: own });
  const ownerNow = async (): Promise<IndexOwner> => {
    const { size, mtimeNs, ctimeNs, dev, ino } = await stat(path, { bigint: true });
    const state = { size: Number(size), modified: String(mtimeNs), changed: String(ctimeNs), inode: `${dev}:${ino}` };
    return { reader: reader.name, file: await realpath(path), state };
  };
  await writeFile(path, lines(many));
  await openOwn();
  const place = join(own, (await readdir(own))[0]!);
  const index = readIndex(Buffer.from(new Uint8Array(await readFile(place)).buffer), await ownerNow())!;
  await writeFile(path, lines(many).replace('"t0"', '"u0"'));
  await writeFile(place, writeIndex(index, await ownerNow()));
  rowsRead = 0;
  const table = await openOwn();
  expect(rowsRead).toBe(0);
  expect(table.row("test", 1).fields).toMatchObject({ id: "t3" });
  expect(() => table.row("test", 0)).toThrow("the file has changed since it was opened");
});

test("a damaged index, and a cache that cannot be written, are replaced by a full read", async () => {
  const name = "damaged.jsonl";
  const own = join(folder, "damaged-cache");
  const openOwn = (at: string) => openTaskFile(name, { cwd: folder, reader, flag: "--env-tasks", cache: at });
  await writeFile(join(folder, name), lines(many));
  const first = await openOwn(own);
  const [index] = await readdir(own);
  const place = join(own, index!);
  const bytes = await readFile(place);
  for (const damage of [
    () => bytes.subarray(0, -5000),
    () => Buffer.alloc(0),
    () => Buffer.concat([bytes.subarray(0, -40), Buffer.alloc(8, 1), bytes.subarray(-32)]),
    () => Buffer.from("not an index"),
  ]) {
    await writeFile(place, damage());
    rowsRead = 0;
    expect((await openOwn(own)).splits).toEqual(first.splits);
    expect(rowsRead).toBe(many);
    rowsRead = 0;
    expect((await openOwn(own)).splits).toEqual(first.splits);
    expect(rowsRead).toBe(0);
  }
  // A file in the place of the folder.
  await writeFile(join(folder, "no-cache"), "");
  expect((await openOwn(join(folder, "no-cache"))).splits).toEqual(first.splits);
});

test("an index of another reader, or of a copy of the file, is not used", async () => {
  const own = join(folder, "own-cache");
  await writeFile(join(folder, "one.jsonl"), lines(many));
  await copyFile(join(folder, "one.jsonl"), join(folder, "two.jsonl"));
  const openOwn = (name: string, by: RowReader) => openTaskFile(name, { cwd: folder, reader: by, flag: "--env", cache: own }); // prettier-ignore
  await openOwn("one.jsonl", reader);
  rowsRead = 0;
  const { splits } = await openOwn("one.jsonl", { ...reader, name: "test-2" });
  expect(rowsRead).toBe(many);
  expect((await openOwn("two.jsonl", reader)).splits).toEqual(splits);
  expect(rowsRead).toBe(2 * many);
});

test("at most 50 indexes are kept, the last ones used", async () => {
  const own = join(folder, "full-cache");
  await mkdir(own);
  for (let at = 0; at < 60; at++) {
    const old = join(own, `old-${at}.tasks`);
    await writeFile(old, "");
    await utimes(old, at, at);
  }
  await writeFile(join(folder, "kept.jsonl"), lines(many));
  await openTaskFile("kept.jsonl", { cwd: folder, reader, flag: "--env-tasks", cache: own });
  const names = await readdir(own);
  expect(names).toHaveLength(50);
  expect(names).toContain("old-59.tasks");
  expect(names).not.toContain("old-10.tasks");
});
