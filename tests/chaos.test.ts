// A run that is killed again and again, in the middle of a write and from outside, and resumed each
// time, gives the same result as an uninterrupted run: no episode lost, none twice, and every row
// byte for byte; if groups are filtered and more are run than required, the same groups are kept.
// The processes run from dist/, and a process costs little more than its start, so a run is killed
// often, early and repeatedly. The worlds are the bookshop and, with ../shared, τ²-bench, whose
// users call tools, too.

import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Episode, GroupRecord } from "../src/core/index.ts";
import { systemClock } from "../src/lib/clock.ts";
import { createRandom } from "../src/lib/random.ts";
import { openRunFolder, resumeFileRunStore } from "../src/store/index.ts";
import { bundledProgram } from "./bundled-program.ts";
import { sharedFolder } from "./conformance/shared-folder.ts";

const isFull = process.env["FULL"] === "1";
const killsOfOneRun = 10;
const tasks = 6;
/** Processes start slowly on a busy machine. */
const timeoutMs = 900_000;

let script = "";
let root = "";
beforeAll(async () => {
  script = await bundledProgram("tests/chaos/chaos-child.mjs");
  root = await mkdtemp(join(tmpdir(), "chaos-"));
});
afterAll(() => rm(root, { recursive: true }));

type Plan = "all" | "filtered";
type World = {
  readonly name: "bookshop" | "telecom" | "mock";
  /** A seed with which some groups before the kept ones have zero variance. */
  readonly seed: number;
  /** Total over all plans. */
  readonly kills: number;
  readonly plans: readonly Plan[];
  readonly data: string | null;
};
type Report = {
  readonly ended: number;
  readonly underWay: number;
  readonly torn: number;
  /** Turns of the episodes in flight; `userCalls` counts lines of their users that are calls. */
  readonly turns: number;
  readonly userCalls: number;
};
type Ended = { readonly isKilled: boolean; readonly report: Report | null };
type Kill = { readonly atWrite: number; readonly share: number } | { readonly afterMs: number };

/** Runs one process until it ends or is killed. */
async function run(folder: string, plan: Plan, { kill, world }: { kill: Kill | null; world: World }): Promise<Ended> {
  const { atWrite, share } = kill !== null && "atWrite" in kill ? kill : { atWrite: 0, share: 0 };
  const numbers = [world.seed, tasks, atWrite, share].map(String);
  const child = spawn(process.execPath, [script, folder, plan, ...numbers, world.name, world.data ?? ""]);
  let [out, errors] = ["", ""];
  const killLater = kill !== null && "afterMs" in kill ? kill.afterMs : null;
  child.stdout.on("data", (bytes: Buffer) => {
    // Its first output signals that it has begun.
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

/** Result of a run, in an order independent of time and without timestamps. */
async function resultOf(folder: string) {
  const reader = openRunFolder(folder);
  const episodes: string[] = [];
  for await (const episode of reader.episodes()) episodes.push(JSON.stringify(episode, withoutTimes));
  const groups: GroupRecord[] = [];
  for await (const group of reader.groups()) groups.push(group);
  const samples = await readFile(join(folder, "samples.jsonl"), "utf8");
  return { episodes: episodes.sort(), groups: groups.toSorted(byPlan), samples: samples.split("\n").sort() };
}

const byPlan = (left: GroupRecord, right: GroupRecord): number => left.groupIndex - right.groupIndex;

/** Results that must not depend on timing: how far groups beyond the required ones came is chance. */
async function promisedOf(folder: string, plan: Plan) {
  const { episodes, groups, samples } = await resultOf(folder);
  expect(new Set(groups.map(({ groupId }) => groupId)).size).toBe(groups.length);
  const ids = episodes.map((line) => (JSON.parse(line) as Episode).id);
  expect(new Set(ids).size).toBe(ids.length);
  if (plan === "all") return { episodes, groups, samples };
  const last = groups.findLast(({ decision }) => decision === "kept");
  const wanted = groups.filter(({ groupIndex }) => groupIndex <= (last?.groupIndex ?? -1));
  expect(groups.slice(wanted.length).map(({ reason }) => reason)).not.toContain(null);
  const counted = new Set(wanted.flatMap(({ episodeIds }) => episodeIds));
  return { episodes: episodes.filter((_line, index) => counted.has(ids[index]!)), groups: wanted, samples };
}

function withoutTimes(key: string, value: unknown): unknown {
  if (key === "durationMs" || key === "waitedMs") return 0;
  if (value instanceof Map) return [...value];
  return ArrayBuffer.isView(value) ? [...(value as Uint32Array)] : value;
}

/** Runs the world's plans, killed and resumed, and compares each with the undisturbed run. */
async function survive(world: World): Promise<void> {
  const { kills, plans } = world;
  const random = createRandom(11);
  const seen = { killed: 0, runs: 0, underWay: 0, torn: 0, cut: 0, turns: 0, userCalls: 0 };
  const calm = new Map<Plan, Awaited<ReturnType<typeof promisedOf>>>();
  while (seen.killed < kills) {
    const plan = plans[seen.runs % plans.length]!;
    const first = join(root, world.name, `calm-${plan}`);
    if (!calm.has(plan)) {
      await run(first, plan, { kill: null, world });
      calm.set(plan, await promisedOf(first, plan));
    }
    const whole = calm.get(plan)!;
    const writes = Number((await openRunFolder(first).manifest()).get("writes"));
    const folder = join(root, world.name, `run-${seen.runs++}`);
    const bound = Math.min(kills, seen.killed + killsOfOneRun);
    for (let isKilled = true; isKilled;) {
      // The file of a killed process may be truncated at any byte, too.
      if (seen.cut < 1 && plan === "all" && seen.killed >= Math.min(killsOfOneRun, kills) / 2)
        seen.cut += await cutLastLine(folder);
      const kill = seen.killed < bound ? drawKill(random.next, writes) : null;
      const ended = await run(folder, plan, { kill, world });
      ({ isKilled } = ended);
      if (isKilled) seen.killed++;
      for (const name of ["underWay", "torn", "turns", "userCalls"] as const) seen[name] += ended.report?.[name] ?? 0;
    }
    expect(await promisedOf(folder, plan)).toEqual(whole);
    expect((await readdir(folder)).toSorted()).toEqual([
      "episodes.jsonl",
      "groups.jsonl",
      "index.jsonl",
      "run.json",
      "samples.jsonl",
    ]);
    expect(await idsOf(folder, "index.jsonl")).toEqual(await idsOf(folder, "episodes.jsonl"));
  }
  process.stdout.write(
    `${world.name}: ${seen.killed} kills in ${seen.runs} runs; ${seen.underWay} episodes resumed in flight with ` +
      `${seen.turns} turns and ${seen.userCalls} lines of calls of their users; ${seen.torn} torn lines\n`,
  );
  expect(calm.get("all")!.episodes).toHaveLength(tasks * 2);
  if (plans.includes("filtered") && seen.runs > 1) {
    const filtered = calm.get("filtered")!.groups.map(({ reason }) => reason);
    // Three groups are kept; some before them have zero variance.
    expect(filtered.filter((reason) => reason === null)).toHaveLength(3);
    expect(filtered).toContain("zero-signal");
  }
  // Kills hit episodes in flight, not only idle processes.
  expect(seen.underWay).toBeGreaterThan(kills);
  expect(seen.torn).toBeGreaterThan(kills / 4);
  expect(seen.cut).toBe(1);
  // Some kills are timed, so how many such lines they leave in flight is chance.
  if (world.name !== "bookshop") expect(seen.userCalls).toBeGreaterThan(kills / 2);
}

const data = sharedFolder("tau2-bench");
const both = ["all", "filtered"] as const;

describe("a run that is killed", () => {
  const bookshop: World = { name: "bookshop", seed: 2, kills: isFull ? 200 : 20, plans: both, data: null };
  const acting: readonly World[] = [
    { name: "telecom", seed: 5, kills: isFull ? 100 : 5, plans: both, data },
    { name: "mock", seed: 5, kills: isFull ? 20 : 3, plans: ["all"], data },
  ];

  it(`${bookshop.kills} times, and resumed each time, is the run that nobody killed`, { timeout: timeoutMs }, () =>
    survive(bookshop),
  );

  it.skipIf(data === null).each(acting)(
    "$kills times is the run that nobody killed where users act in $name of τ²-bench (skipped without ../shared)",
    { timeout: timeoutMs },
    survive,
  );
});

async function idsOf(folder: string, file: string): Promise<readonly string[]> {
  const lines = (await readFile(join(folder, file), "utf8")).split("\n").slice(0, -1);
  return lines.map((line) => (JSON.parse(line) as { readonly id: string }).id);
}

/**
 * Truncates the journal at several bytes of its last record, checks that the events before the
 * record count at each length, and leaves it truncated. Returns 0 if there is not a record to
 * truncate.
 */
async function cutLastLine(folder: string): Promise<number> {
  const [name] = (await readdir(join(folder, "journal"))).toSorted().slice(-1);
  if (name === undefined) return 0;
  const file = join(folder, "journal", name);
  const left = await readFile(file);
  const whole = left.subarray(0, left.lastIndexOf(0x0a) + 1);
  if (whole.length === 0) return 0;
  const lastStart = whole.lastIndexOf(0x0a, whole.length - 2) + 1;
  const [, id] = JSON.parse(whole.toString("utf8", lastStart)) as [string, string];
  const counts = new Set<number>();
  // Every byte in the full suite; the store's own tests always truncate a short record at every
  // byte.
  const step = isFull ? 1 : Math.ceil((whole.length - lastStart) / 40);
  for (let length = lastStart; length < whole.length; length += step) {
    await writeFile(file, whole.subarray(0, length));
    const resumed = await resumeFileRunStore(folder);
    counts.add((await resumed.store.recorded(id)).length);
    const torn = resumed.torn.filter((line) => line.file === file);
    expect(torn).toEqual(length === lastStart ? [] : [{ file, bytes: length - lastStart }]);
    await resumed.release();
  }
  expect(counts.size).toBe(1);
  await writeFile(file, whole.subarray(0, whole.length - 1));
  return 1;
}

/**
 * Draws a kill: mostly inside a write, at any of its bytes; one in five from outside. Kills come
 * early enough that the run survives many of them.
 */
function drawKill(random: () => number, writes: number): Kill {
  if (random() < 0.2) return { afterMs: random() * 30 };
  return { atWrite: 1 + Math.floor((random() * writes * 2) / killsOfOneRun), share: random() };
}
