import { expect, test, vi } from "vitest";
import { ConfigurationError } from "../core/index.ts";
import { openTaskPages, type TaskPages } from "./task-pages.ts";
import type { RowReader, TaskTable } from "./task-table.ts";

const reader: RowReader = {
  name: "test-1",
  defaultSplit: "train",
  read: (fields, place) => {
    if (typeof fields !== "object" || fields === null) throw new ConfigurationError(`Cannot read ${place}: no object.`);
    const { id = null, split = "train", instruction } = fields as Readonly<Record<string, string | undefined>>;
    return { id, split, traits: instruction === undefined ? [] : ["instruction"] };
  },
};

const openPages = (exported: unknown): TaskTable => openTaskPages(exported, { path: "tasks.mjs", reader });
const rows = (offset: number, limit: number) => Array.from({ length: limit }, (_, at) => ({ id: `t${offset + at}` }));

test("a function gives its tasks page by page, and only those that are requested", () => {
  const page = vi.fn<typeof rows>(rows);
  const table = openPages({ version: "1", size: 1_000_000, page });
  expect(table.splits).toMatchObject([{ name: "train", size: 1_000_000 }]);
  expect(table.splits[0]!.hash).toMatch(/^[0-9a-f]{64}$/);
  expect(table.size).toBe(1_000_000);
  expect(page.mock.calls).toEqual([[0, 64, "train"]]);
  expect(table.row("train", 999_999)).toEqual({
    fields: { id: "t999999" },
    text: '{"id":"t999999"}',
    place: 'task 999999 of split "train" of "tasks.mjs"',
  });
  expect(table.row("train", 999_950).fields).toEqual({ id: "t999950" });
  expect(table.row("train", 63).fields).toEqual({ id: "t63" });
  expect(page.mock.calls).toEqual([[0, 64, "train"], [999_936, 64, "train"]]); // prettier-ignore
  expect(() => table.row("train", 1_000_000)).toThrow(RangeError);
  expect(() => table.row("test", 0)).toThrow(RangeError);
});

test("splits have sizes and hashes of their own, which change with the version", () => {
  const page = (offset: number, limit: number, split: string) =>
    rows(offset, limit).map((row) => ({ ...row, split, instruction: "Go." }));
  const of = (version: string, size: unknown) =>
    Object.fromEntries(openPages({ version, size, page }).splits.map(({ name, hash }) => [name, hash]));
  const base = of("1", { train: 70, test: 3 });
  expect(Object.keys(base)).toEqual(["train", "test"]);
  expect(of("1", { train: 70, test: 3 })).toEqual(base);
  expect(of("2", { train: 70, test: 3 })["train"]).not.toBe(base["train"]);
  const larger = of("1", { train: 71, test: 3 });
  expect(larger["test"]).toBe(base["test"]);
  expect(larger["train"]).not.toBe(base["train"]);
  const table = openPages({ version: "1", size: { train: 70, test: 3 }, page });
  expect(table.allHave("instruction")).toBe(true);
  expect(table.row("train", 69).fields).toEqual({ id: "t69", split: "train", instruction: "Go." });
});

test("pages are kept up to a limit, so that large rows do not fill the memory", () => {
  const text = "x".repeat(2 ** 20);
  const page = vi.fn<TaskPages["page"]>((offset, limit) => rows(offset, limit).map((row) => ({ ...row, text })));
  const table = openPages({ version: "1", size: 192, page });
  for (const index of [0, 64, 65, 0, 191]) table.row("train", index);
  expect(page.mock.calls.map(([offset]) => offset)).toEqual([0, 64, 0, 128]);
});

test.each<[string, unknown, string]>([
  ["no object", 5, "its default export is not an object"],
  ["no version", { size: 1, page: rows }, "its version is not a string"],
  ["an empty version", { version: "", size: 1, page: rows }, "its version is not a string"],
  ["no function", { version: "1", size: 1, page: [] }, "its page is not a function"],
  ["no size", { version: "1", page: rows }, 'the size of split "train" is undefined'],
  ["size 0", { version: "1", size: 0, page: rows }, 'the size of split "train" is 0'],
  ["a broken size", { version: "1", size: { test: 1.5 }, page: rows }, 'the size of split "test" is 1.5'],
  ["a huge size", { version: "1", size: 1e15, page: rows }, "expected a whole number from 1 to 1000000000"],
  ["no splits", { version: "1", size: {}, page: rows }, "it has 0 splits"],
  ["a fault", { version: "1", size: 5, page: () => { throw new Error("no disk"); } }, 'page(0, 5, "train") of "tasks.mjs": no disk; correct the module.'], // prettier-ignore
  ["a promise", { version: "1", size: 5, page: async () => rows(0, 5) }, "it returned a promise, and tasks are taken synchronously"], // prettier-ignore
  ["null", { version: "1", size: 5, page: () => null }, "it returned no list"],
  ["too few rows", { version: "1", size: 5, page: () => rows(0, 4) }, "it returned 4 tasks, expected 5"],
  ["a hole", { version: "1", size: 2, page: () => Array.from<unknown>({ length: 2 }) }, "Cannot "],
  ["a function in a row", { version: "1", size: 1, page: () => [{ id: () => 1 }] }, "task 0: "],
  ["a number without JSON", { version: "1", size: 1, page: () => [{ id: "a", seed: Number.NaN }] }, "task 0: "],
  ["a cycle", { version: "1", size: 1, page: () => { const row: Record<string, unknown> = {}; row["row"] = row; return [row]; } }, "task 0: "], // prettier-ignore
  ["a row of 20 MB", { version: "1", size: 1, page: () => [{ text: "x".repeat(20 * 2 ** 20) }] }, "task 0: "],
  ["equal ids", { version: "1", size: 2, page: () => [{ id: "a" }, { id: "a" }] }, 'two tasks have the id "a"'],
  ["another split", { version: "1", size: 1, page: () => [{ split: "test" }] }, 'task 0 names split "test"'],
  ["a fault of the reader", { version: "1", size: 1, page: () => [[]].map(() => "text") }, "no object"],
])("a function with %s is refused", (_what, exported, message) => {
  expect(() => openPages(exported)).toThrow(message);
  expect(() => openPages(exported)).toThrow(ConfigurationError);
});

test("later tasks without what the first ones have are refused when they are read", () => {
  const page = (offset: number, limit: number) =>
    rows(offset, limit).map((row) => (offset === 0 ? { ...row, instruction: "Go." } : row));
  const table = openPages({ version: "1", size: 100, page });
  expect(table.row("train", 0).fields).toEqual({ id: "t0", instruction: "Go." });
  expect(() => table.row("train", 64)).toThrow("task 64 has no instruction, and the first tasks have");
});
