import { Buffer } from "node:buffer";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readTaskRows, type TaskRow } from "./task-rows.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "task-rows-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function read(name: string, content?: string | Buffer): Promise<TaskRow[]> {
  if (content !== undefined) await writeFile(join(folder, name), content);
  const rows: TaskRow[] = [];
  for await (const row of readTaskRows(name, folder)) rows.push(row);
  return rows;
}

const long = "é".repeat(100_000);

test.each<[string, string, TaskRow[]]>([
  ["a.jsonl", '\ufeff{"id": "a"}\r\n\n  \n[1]', [{ fields: { id: "a" }, line: 1 }, { fields: [1], line: 4 }]], // prettier-ignore
  ["long.jsonl", `{"a": "${long}"}\n{"b": "${long}"}\n`, [{ fields: { a: long }, line: 1 }, { fields: { b: long }, line: 2 }]], // prettier-ignore
  ["empty.jsonl", "", []],
  [
    "a.csv",
    '\ufeffid,text,reset\r\na,"x, ""y""\nz","{""seed"": 1}"\r\n\r\n"b",,[2]\n',
    [
      { fields: { id: "a", text: 'x, "y"\nz', reset: { seed: 1 } }, line: 2 },
      { fields: { id: "b", reset: [2] }, line: 5 },
    ],
  ],
  ["long.CSV", `a\n${long}`, [{ fields: { a: long }, line: 2 }]],
  ["quoted.csv", 'a\n""\nx"y', [{ fields: {}, line: 2 }, { fields: { a: 'x"y' }, line: 3 }]], // prettier-ignore
  ["proto.csv", "__proto__,constructor\na,b", [{ fields: JSON.parse('{"__proto__": "a", "constructor": "b"}'), line: 2 }]], // prettier-ignore
])("readTaskRows() reads %s", async (name, content, rows) => {
  expect(await read(name, content)).toEqual(rows);
});

test.each([
  ["bad.jsonl", '{}\n{"a":', 'Cannot read line 2 of "bad.jsonl": it is not JSON ('],
  ["utf.jsonl", Buffer.from([0x7b, 0x7d, 0x0a, 0x22, 0xff, 0x22]), 'line 2 of "utf.jsonl": it is not UTF-8'],
  ["utf.csv", Buffer.from([0x61, 0x0a, 0xc3]), '"utf.csv": it is not UTF-8'],
  ["short.csv", "a,b\n1\n", 'line 2 of "short.csv": it has 1 cells, and the header has 2'],
  ["twice.csv", "a,a\n", 'its column "a" has no name of its own'],
  ["open.csv", 'a\n"x\ny', 'line 2 of "open.csv": a quote does not end'],
  ["after.csv", 'a\n"x"y', "text follows a closing quote"],
  ["json.csv", "a\n{x\n", 'line 2 of "json.csv": it is not JSON'],
  ["wide.csv", ",".repeat(1001), "it has more than 1000 cells"],
])("readTaskRows() refuses %s", async (name, content, message) => {
  await expect(read(name, content)).rejects.toThrow(message);
});

test("readTaskRows() names what is not a file", async () => {
  await expect(read("none.jsonl")).rejects.toThrow('Cannot read "none.jsonl": there is no such file; correct --env-tasks.'); // prettier-ignore
  await expect(read(".")).rejects.toThrow("it is a folder");
});

test.each(["jsonl", "csv"])("readTaskRows() refuses a line of 1 GB after 16 MB of it, as %s", async (kind) => {
  const name = `gigabyte.${kind}`;
  const file = await open(join(folder, name), "w");
  // A file with a hole: nothing of it is on the disk.
  await file.truncate(2 ** 30);
  await file.close();
  const before = process.memoryUsage().rss;
  await expect(read(name)).rejects.toThrow(`line 1 of "${name}": it is longer than 16 MB`);
  expect(process.memoryUsage().rss - before).toBeLessThan(400 * 2 ** 20);
});
