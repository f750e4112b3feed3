// A run that is killed again and again, in the middle of a write and from outside, and resumed each time, comes to what an
// uninterrupted run comes to: no episode lost, none twice, and every row byte for byte. The processes run from dist/.

import { spawn } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../src/lib/clock.ts";
import { createRandom } from "../src/lib/random.ts";
import { openRunFolder, resumeFileRunStore } from "../src/store/index.ts";

const isFull = process.env["FULL"] === "1";
const kills = isFull ? 200 : 20;
const tasks = 10;
const seed = 5;
/** Processes that start on a busy machine take their time. */
const timeoutMs = 900_000;

let root = "";
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "chaos-"));
});
afterAll(() => rm(root, { recursive: true }));

type Report = { readonly ended: number; readonly underWay: number; readonly torn: number };
type Ended = { readonly isKilled: boolean; readonly report: Report | null };
type Kill = { readonly atWrite: number; readonly share: number } | { readonly afterMs: number };

/** Runs one process to its end, or to the kill. */
async function run(folder: string, kill: Kill | null): Promise<Ended> {
  const { atWrite, share } = kill !== null && "atWrite" in kill ? kill : { atWrite: 0, share: 0 };
  const script = fileURLToPath(new URL("chaos/chaos-child.mjs", import.meta.url));
  const child = spawn(process.execPath, [script, folder, ...[seed, tasks, atWrite, share].map(String)]);
  let [out, errors] = ["", ""];
  const killLater = kill !== null && "afterMs" in kill ? kill.afterMs : null;
  child.stdout.on("data", (bytes: Buffer) => {
    // Its first words say that it has begun.
    if (out === "" && killLater !== null) void systemClock.sleep(killLater).then(() => child.kill("SIGKILL"));
    out += bytes.toString();
  });
  child.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  const [code, signal] = await new Promise<[number | null, string | null]>((resolve) => {
    child.on("close", (...ending) => resolve(ending));
  });
  if (signal !== "SIGKILL") expect([code, errors]).toEqual([0, ""]);
  return { isKilled: signal === "SIGKILL", report: out === "" ? null : (JSON.parse(out) as Report) };
}

/** What a run has come to, in an order of its own and without times. */
async function resultOf(folder: string) {
  const reader = openRunFolder(folder);
  const episodes: string[] = [];
  for await (const episode of reader.episodes()) episodes.push(JSON.stringify(episode, withoutTimes));
  const groups: string[] = [];
  for await (const group of reader.groups()) groups.push(JSON.stringify(group));
  const samples = await readFile(join(folder, "samples.jsonl"), "utf8");
  return { episodes: episodes.sort(), groups: groups.sort(), samples: samples.split("\n").sort() };
}

function withoutTimes(key: string, value: unknown): unknown {
  if (key === "durationMs" || key === "waitedMs") return 0;
  if (value instanceof Map) return [...value];
  return ArrayBuffer.isView(value) ? [...(value as Uint32Array)] : value;
}

describe("a run that is killed", () => {
  it(`${kills} times, and resumed each time, is the run that nobody killed`, { timeout: timeoutMs }, async () => {
    const calm = join(root, "calm");
    await run(calm, null);
    const whole = await resultOf(calm);
    expect(whole.episodes).toHaveLength(tasks * 2);
    const writes = Number((await openRunFolder(calm).manifest()).get("writes"));

    const random = createRandom(11);
    const seen = { killed: 0, runs: 0, underWay: 0, torn: 0 };
    while (seen.killed < kills) {
      const folder = join(root, `run-${seen.runs++}`);
      for (let isKilled = true; isKilled;) {
        const kill = drawKill(seen.killed < kills, random.next, writes);
        const ended = await run(folder, kill);
        ({ isKilled } = ended);
        if (isKilled) seen.killed++;
        seen.underWay += ended.report?.underWay ?? 0;
        seen.torn += ended.report?.torn ?? 0;
      }
      expect(await resultOf(folder)).toEqual(whole);
      expect((await readdir(folder)).toSorted()).toEqual([
        "episodes.jsonl",
        "groups.jsonl",
        "run.json",
        "samples.jsonl",
      ]);
    }
    // It was not only killed before or after everything.
    expect(seen.underWay).toBeGreaterThan(kills);
    expect(seen.torn).toBeGreaterThan(kills / 4);
  });

  it(
    "and whose journal is cut at any byte of its last record, goes on from there",
    { timeout: timeoutMs },
    async () => {
      const folder = join(root, "cut");
      await run(folder, { atWrite: 40, share: 1 });
      const [name] = (await readdir(join(folder, "journal"))).toSorted().slice(-1);
      const file = join(folder, "journal", name!);
      const whole = await readFile(file);
      const lastStart = whole.lastIndexOf(0x0a, whole.length - 2) + 1;
      const [, id] = JSON.parse(whole.toString("utf8", lastStart)) as [string, string];
      const counts = new Set<number>();
      // Every byte in the full suite; the store's own tests cut a short record at every one of its bytes each time.
      const step = isFull ? 1 : Math.ceil((whole.length - lastStart) / 40);
      for (let length = lastStart; length < whole.length; length += step) {
        await writeFile(file, whole.subarray(0, length));
        const resumed = await resumeFileRunStore(folder);
        counts.add((await resumed.store.recorded(id)).length);
        expect(resumed.torn).toEqual(length === lastStart ? [] : [{ file, bytes: length - lastStart }]);
        await resumed.release();
      }
      // Whatever is left of it, the same events count.
      expect(counts.size).toBe(1);
      const calm = await resultOf(join(root, "calm"));
      for (const length of isFull
        ? [lastStart, lastStart + 7, whole.length - 2, whole.length - 1]
        : [whole.length - 1]) {
        const copy = `${folder}-${length}`;
        await cp(folder, copy, { recursive: true });
        await writeFile(join(copy, "journal", name!), whole.subarray(0, length));
        expect((await run(copy, null)).isKilled).toBe(false);
        expect(await resultOf(copy)).toEqual(calm);
      }
    },
  );
});

/** In a write mostly, in any part of it; every fifth from outside; `null`: this one may end. */
function drawKill(isWanted: boolean, random: () => number, writes: number): Kill | null {
  if (!isWanted) return null;
  if (random() < 0.2) return { afterMs: random() * 100 };
  return { atWrite: 1 + Math.floor(random() * (writes / 3)), share: random() };
}
