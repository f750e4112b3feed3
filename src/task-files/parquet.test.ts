import { Buffer } from "node:buffer";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type ColumnSource, parquetWriteBuffer } from "hyparquet-writer";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createRandom } from "../lib/random.ts";
import { writeParquetRows } from "./parquet.ts";
import { openTaskFile } from "./task-file.ts";
import type { RowReader, TaskTable } from "./task-table.ts";

let folder = "";
let cache = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "parquet-"));
  cache = join(folder, "cache");
});
afterAll(() => rm(folder, { recursive: true }));

let rowsRead = 0;
beforeEach(() => {
  rowsRead = 0;
});
const reader: RowReader = {
  name: "test-1",
  defaultSplit: "train",
  read: (fields) => {
    rowsRead++;
    const { id = null, split = "train" } = fields as Readonly<Record<string, string | undefined>>;
    return { id, split, traits: [] };
  },
};

async function openBytes(name: string, bytes?: Uint8Array, at = cache): Promise<TaskTable> {
  if (bytes !== undefined) await writeFile(join(folder, name), bytes);
  return openTaskFile(name, { cwd: folder, reader, flag: "--env-tasks", cache: at });
}

const bytesOf = (columnData: ColumnSource[], rowGroupSize = 100): Uint8Array =>
  new Uint8Array(parquetWriteBuffer({ columnData, rowGroupSize }));

const allRows = (table: TaskTable): unknown[] =>
  table.splits.flatMap(({ name, size }) => Array.from({ length: size }, (_, at) => table.row(name, at).fields));

test("values of Parquet are those of JSON", async () => {
  const bytes = bytesOf([
    { name: "id", data: ["a", "b"], type: "STRING" },
    { name: "instruction", data: ["[a] is text", null], type: "STRING", nullable: true },
    { name: "reset", data: ['{"seed": 1, "levels": [1, 2]}', null], type: "STRING", nullable: true },
    { name: "count", data: [7n, 2n ** 53n - 1n], type: "INT64" },
    { name: "rate", data: [0.5, -1e300], type: "DOUBLE" },
    { name: "yes", data: [true, false], type: "BOOLEAN" },
    { name: "data", data: [{ files: { "a.txt": "1" } }, [null, "x"]], type: "JSON" },
    { name: "when", data: [new Date(0), new Date(1e12)], type: "TIMESTAMP" },
  ]);
  const first = {
    id: "a",
    instruction: "[a] is text",
    reset: { seed: 1, levels: [1, 2] },
    count: 7,
    rate: 0.5,
    yes: true,
    data: { files: { "a.txt": "1" } },
    when: "1970-01-01T00:00:00.000Z",
  };
  const second = { id: "b", count: 2 ** 53 - 1, rate: -1e300, yes: false, data: [null, "x"], when: "2001-09-09T01:46:40.000Z" }; // prettier-ignore
  const table = await openBytes("values.parquet", bytes);
  expect(allRows(table)).toEqual([first, second]);
  expect(table.row("train", 1)).toEqual({
    fields: second,
    text: JSON.stringify(second),
    place: 'row 2 of "values.parquet"',
  });
});

const manyIds = Array.from({ length: 1050 }, (_, at) => `t${at}`);
const many = (): Uint8Array =>
  bytesOf([
    { name: "id", data: manyIds, type: "STRING" },
    { name: "split", data: manyIds.map((_, at) => (at % 4 === 0 ? "test" : "train")), type: "STRING" },
  ]);

test("rows of several groups are converted once, and have the hash of the same rows in JSON lines", async () => {
  const table = await openBytes("many.parquet", many());
  expect(rowsRead).toBe(1050);
  expect(table.row("train", 786).fields).toEqual({ id: "t1049", split: "train" });
  const again = await openBytes("many.parquet");
  expect(rowsRead).toBe(1050);
  expect(again.splits).toEqual(table.splits);
  expect(again.row("test", 262).fields).toEqual({ id: "t1048", split: "test" });
  const lines = manyIds.map((id, at) => JSON.stringify({ id, split: at % 4 === 0 ? "test" : "train" })).join("\n");
  expect((await openBytes("many.jsonl", Buffer.from(lines))).splits).toEqual(table.splits);
});

test("rows that the cache has lost are converted again, and a changed file is not read with old ones", async () => {
  const own = join(folder, "own-cache");
  const table = await openBytes("lost.parquet", many(), own);
  for (const name of await readdir(own)) if (name.endsWith(".jsonl")) await rm(join(own, name));
  expect(() => table.row("train", 0)).toThrow('Cannot read "lost.parquet": there is no such file');
  expect((await openBytes("lost.parquet", undefined, own)).row("train", 0).fields).toEqual({ id: "t1", split: "train" }); // prettier-ignore
  expect(table.row("train", 0).fields).toEqual({ id: "t1", split: "train" });
  const changed = await openBytes("lost.parquet", bytesOf([{ name: "id", data: ["z"], type: "STRING" }]), own);
  expect(allRows(changed)).toEqual([{ id: "z" }]);
  expect(() => table.row("train", 0)).toThrow('Cannot read row 2 of "lost.parquet": the file has changed');
  expect((await readdir(own)).filter((name) => /\d-\d+$/.test(name))).toEqual([]);
});

test("a cache that cannot be written is named with the variable that moves it", async () => {
  await writeFile(join(folder, "file"), "");
  await expect(openBytes("many.parquet", many(), join(folder, "file"))).rejects.toThrow(
    /its rows are kept in ".*file", which cannot be written \(\w+\); set TRAINABLE_AGENTS_CACHE/,
  );
});

test.each<[string, () => Uint8Array, string]>([
  ["empty.parquet", () => new Uint8Array(), "it is too short to be Parquet"],
  ["text.parquet", () => Buffer.from('{"id": "a"}\n'), "Cannot read"],
  ["end.parquet", () => Buffer.from("PAR1\xff\xff\xff\x7fPAR1", "latin1"), "its metadata claim 2147483647 bytes"],
  ["cut.parquet", () => many().subarray(-2000), "Cannot read"],
  ["large.parquet", () => bytesOf([{ name: "n", data: [2n ** 60n], type: "INT64" }]), 'row 1, column "n": 1152921504606846976 is too large for a number of JSON'], // prettier-ignore
  ["nan.parquet", () => bytesOf([{ name: "n", data: [1, Number.NaN], type: "DOUBLE" }]), 'row 2, column "n": NaN is not a number of JSON'], // prettier-ignore
  ["proto.parquet", () => bytesOf([{ name: "__proto__", data: ["x"], type: "STRING" }]), 'a column is named "__proto__"'], // prettier-ignore
  ["long.parquet", () => bytesOf([{ name: "id", data: ["x".repeat(17 * 2 ** 20)], type: "STRING" }]), "row 1 is longer than 16 MB"], // prettier-ignore
  ["twice.parquet", () => bytesOf([{ name: "id", data: ["a", "b", "a"], type: "STRING" }]), 'row 3 of "twice.parquet": it has the id "a"'], // prettier-ignore
])("openTaskFile() refuses %s", async (name, bytes, message) => {
  await expect(openBytes(name, bytes())).rejects.toThrow(message);
  await expect(openBytes(name)).rejects.toMatchObject({ name: "ConfigurationError" });
});

test("rows of 10 MB are read", async () => {
  const text = "x".repeat(10 * 2 ** 20);
  const bytes = bytesOf([{ name: "text", data: [text, `${text}y`], type: "STRING" }]);
  const table = await openBytes("ten.parquet", bytes);
  expect(table.row("train", 1).fields).toEqual({ text: `${text}y` });
});

/** Copies of a file, each with a few wrong bytes. */
function damaged(): Uint8Array[] {
  const good = Buffer.from(bytesOf([{ name: "id", data: Array.from({ length: 64 }, () => "same"), type: "STRING" }]));
  const random = createRandom(7);
  return Array.from({ length: 12 }, () => {
    const bytes = Buffer.from(good);
    for (let change = 0; change < 1 + random.integer(3); change++) {
      bytes[4 + random.integer(bytes.length - 8)] = random.integer(4) === 0 ? 0xff : random.integer(256);
    }
    return bytes;
  });
}

test("a run of values that would end the process is refused", { timeout: 120_000 }, async () => {
  const count = 2 ** 20;
  const data = Array.from({ length: count }, () => "same");
  const column = { name: "text", data, type: "STRING" as const, nullable: true };
  const bytes = Buffer.from(parquetWriteBuffer({ columnData: [column], codec: "UNCOMPRESSED", pageSize: 2 ** 30, rowGroupSize: count })); // prettier-ignore
  // The run of definition levels: its length, twice the count as a number of 7 bits a byte, and the level.
  const run = bytes.indexOf(Buffer.from([0x80, 0x80, 0x80, 0x01, 0x01, 0x00]));
  expect(run).toBeGreaterThan(0);
  Buffer.from([0xfe, 0xff, 0xff, 0x7f]).copy(bytes, run);
  await expect(openBytes("run.parquet", bytes)).rejects.toThrow(
    /Cannot read "run.parquet": its reader ended with .*, as it does for values that need more than 1024 MB; correct --env-tasks/,
  );
  expect((await readdir(cache)).filter((name) => /\d-\d+$/.test(name))).toEqual([]);
});

test("damaged files are refused or read, in bounded memory", { timeout: 300_000 }, async () => {
  const before = process.memoryUsage().rss;
  for (const bytes of damaged()) {
    const outcome = await openBytes("damaged.parquet", bytes).then(
      ({ size }) => size,
      (error: unknown) => (error as Error).name,
    );
    expect(outcome === "ConfigurationError" || typeof outcome === "number", String(outcome)).toBe(true);
  }
  expect(process.memoryUsage().rss - before).toBeLessThan(1500 * 2 ** 20);
  expect((await stat(cache)).isDirectory()).toBe(true);
});

test("a page of zstd of another length is refused, and a reader without a sign of life is stopped", async () => {
  const [file, target] = [join(folder, "page.parquet"), join(folder, "page.jsonl")];
  const columnData = [{ name: "id", data: ["a".repeat(50)], type: "STRING" as const }];
  // A frame of one letter, repeated 3 times, and some more bytes.
  const frame = Buffer.from("28b52ffd20031b00002000000000", "hex");
  await writeFile(file, new Uint8Array(parquetWriteBuffer({ columnData, codec: "ZSTD", compressors: { ZSTD: () => frame } }))); // prettier-ignore
  await expect(writeParquetRows({ file, target })).rejects.toThrow(/a page of \d+ bytes has 3/);
  // A process does not even start in this time.
  await expect(writeParquetRows({ file, target }, { silentMs: 1 })).rejects.toThrow(/its reader was stopped/);
});

/** Written by pyarrow 26.0.1, with its own reading of them in JSON lines. */
test.each(["snappy", "gzip-v2", "none-delta", "brotli", "zstd"])(
  "rows that pyarrow wrote are read as it reads them, %s",
  async (kind) => {
    const goldens = fileURLToPath(new URL("../../tests/goldens/tasks/", import.meta.url));
    const open = (name: string) => openTaskFile(name, { cwd: goldens, reader, flag: "--env-tasks", cache });
    const [read, expected] = [await open(`pyarrow-${kind}.parquet`), await open("pyarrow.jsonl")];
    expect(allRows(read)).toEqual(allRows(expected));
    expect(allRows(read)).toHaveLength(40);
  },
);
