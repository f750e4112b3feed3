import { existsSync } from "node:fs";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeFolder } from "./make-folder.ts";

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "make-folder-"));
});
afterAll(() => rm(root, { recursive: true }));

test("makes all folders of a path, also several callers at once, and leaves those that exist", async () => {
  const path = join(root, "a", "b", "c");
  await Promise.all([makeFolder(path, 0o700), makeFolder(path, 0o700), makeFolder(join(path, "d"), 0o700)]);
  await makeFolder(path);
  expect((await stat(path)).mode & 0o777).toBe(0o700);
  expect((await stat(join(path, "d"))).isDirectory()).toBe(true);
});

test("rejects with the system's own error", async () => {
  const file = join(root, "file");
  await writeFile(file, "");
  await expect(makeFolder(file)).rejects.toMatchObject({ code: "EEXIST" });
  await expect(makeFolder(join(file, "below"))).rejects.toMatchObject({ code: "ENOTDIR" });
  await expect(makeFolder(join(root, "x".repeat(300)))).rejects.toMatchObject({ code: "ENAMETOOLONG" });
});

test.skipIf(!existsSync("/proc/self"))("ends where a parent refuses every new folder", async () => {
  await expect(makeFolder("/proc/self/no/such")).rejects.toMatchObject({ code: "ENOENT" });
});
