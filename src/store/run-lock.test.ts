import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { lockRun } from "./run-lock.ts";

it("of many who find the lock of a killed process at once, one gets it, and nothing else stays", async () => {
  const folder = await mkdtemp(join(tmpdir(), "run-lock-"));
  const file = join(folder, "run.lock");
  for (let round = 0; round < 40; round++) {
    const gone = JSON.stringify({ pid: process.pid, began: "0", host: hostname(), since: "yesterday" });
    if (round > 0) await writeFile(file, gone);
    const asked = await Promise.allSettled(
      Array.from({ length: 12 }, async (_, place) => {
        // The attempts start with varying distances.
        for (let wait = 0; wait < (place * round) % 17; wait++) await new Promise((done) => setImmediate(done));
        return lockRun(folder, file);
      }),
    );
    const locks = asked.filter((one) => one.status === "fulfilled");
    expect(locks).toHaveLength(1);
    expect(await readdir(folder)).toEqual(["run.lock"]);
    await locks[0]?.value.release();
  }
  await rm(folder, { recursive: true });
});

it("removes what was left by processes that were killed while they acquired it, and nothing of those that live", async () => {
  const folder = await mkdtemp(join(tmpdir(), "run-lock-"));
  const file = join(folder, "run.lock");
  // A number above all process ids.
  const dead = 2 ** 22 + 5;
  await writeFile(`${file}.${dead}-0`, "");
  await writeFile(
    `${file}.${process.pid}-90`,
    JSON.stringify({ pid: process.pid, began: "0", host: hostname(), since: "yesterday" }),
  );
  await writeFile(`${file}.${process.pid}-91`, "");
  await writeFile(join(folder, `notes.${dead}-0`), "");
  const lock = await lockRun(folder, file);
  await lock.release();
  expect((await readdir(folder)).toSorted()).toEqual([`notes.${dead}-0`, `run.lock.${process.pid}-91`]);
  await rm(folder, { recursive: true });
});
