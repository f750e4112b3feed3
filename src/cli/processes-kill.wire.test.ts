// A run in several processes, whose workers and coordinator are killed at random moments, has the
// same result as a run of one process: groups, decisions and rewards are equal, no id counts twice,
// every sampled token is trained once or dropped with a reason, and no process or file is left
// over. The processes run from dist/.

import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as rest } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { bundledProgram, killProcess } from "../../tests/bundled-program.ts";
import type { GroupRecord } from "../core/index.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { createRandom } from "../lib/random.ts";
import { natsServer, startBroker } from "../queue/nats/broker.test-helper.ts";
import { openRunFolder } from "../store/index.ts";
import { createSglangFront } from "../testing/index.ts";
import { createReadableTokenizer } from "../tokenizers/index.ts";
import { conservationViolations, episodeSamples } from "../trajectories/index.ts";

const isFull = process.env["FULL"] === "1";
const kills = isFull ? 200 : 15;

const tokenizer = createReadableTokenizer();
const expert = createExpertSampler({ tokenizer, noise: 0.2 });
let turnMs = 15;
let calls = 0;
/** A sampler as slow as a real server, so that processes die in the middle of turns. */
const slow: typeof expert = {
  sample: async (request) => {
    calls++;
    await rest(turnMs);
    return expert.sample(request);
  },
};

let program = "";
let root = "";
let url = "";
let close = (): Promise<void> => Promise.resolve();
beforeAll(async () => {
  program = await bundledProgram("dist/cli/main.js");
  root = await mkdtemp(join(tmpdir(), "processes-"));
  const endTokenIds = [tokenizer.tokenId("<|im_end|>") ?? 0];
  const listener = await createSglangFront({ sampler: slow, tokenizer, endTokenIds }).listen();
  url = listener.url;
  close = () => listener.close();
});
afterAll(async () => {
  await close();
  await rm(root, { recursive: true });
});

type Run = {
  readonly child: ChildProcess;
  readonly ended: Promise<{ readonly code: number | null; readonly errors: string }>;
};

function start(...flags: readonly string[]): Run {
  return startCommand("rollout", "--url", url, "--quiet", ...flags);
}

function startCommand(...flags: readonly string[]): Run {
  const child = spawn(process.execPath, [program, ...flags], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.on("data", (bytes: Buffer) => (errors += bytes.toString()));
  const ended = new Promise<{ code: number | null; errors: string }>((resolve) => {
    child.once("exit", (code) => resolve({ code, errors }));
  });
  return { child, ended };
}

const plan = (folder: string, groupSize: number): string[] => [
  ...[
    "--engine",
    "sglang",
    "--model",
    "readable",
    "--seed-turns",
    "--seed",
    "4",
    "--tasks",
    "0-7",
    "--group-size",
    String(groupSize),
  ],
  ...["--concurrency", "16", "--filter", "zero-signal", "--out", folder],
];

function workersOf(pid: number): number[] {
  try {
    const found = execFileSync("pgrep", ["-P", String(pid)], { encoding: "utf8" });
    return found.trim().split("\n").map(Number);
  } catch {
    return [];
  }
}

/** Groups with their decisions and rewards, and the tokens of each episode that counts. */
async function resultOf(folder: string) {
  const reader = openRunFolder(folder);
  const groups: GroupRecord[] = [];
  for await (const group of reader.groups()) groups.push(group);
  const episodes = new Map<string, string>();
  for await (const episode of reader.episodes()) {
    expect(episodes.has(episode.id)).toBe(false);
    expect(conservationViolations(episode.trajectory, episodeSamples(episode))).toEqual([]);
    const sampled = episode.trajectory.turns.map(({ sampledTokens }) => Array.from(sampledTokens).join(" "));
    episodes.set(episode.id, JSON.stringify([episode.reward, episode.outcome, episode.failure, sampled]));
  }
  const shown = groups.toSorted((left, right) => left.groupIndex - right.groupIndex);
  return { groups: shown, episodes: [...episodes].toSorted(([left], [right]) => (left < right ? -1 : 1)) };
}

async function leftBehind(folder: string): Promise<string[]> {
  const names = await readdir(folder, { recursive: true });
  return names.filter((name) => /lock|journal|\.new$/.test(name));
}

/** Number of episodes that count. */
async function indexed(folder: string): Promise<number> {
  return (await readFile(join(folder, "index.jsonl"), "utf8").catch(() => "")).split("\n").length - 1;
}

type Started = { readonly run: Run; readonly workers: readonly number[]; end(): Promise<void> };

/** A run with two workers, as processes of its own or on a broker, with a lease of three seconds. */
async function withWorkers(kind: "processes" | "queue", folder: string): Promise<Started> {
  const lease = ["--queue-lease", "3"];
  if (kind === "processes") {
    const run = start(...plan(folder, 8), "--processes", "2", ...lease);
    await expect.poll(() => workersOf(run.child.pid!), { timeout: 30_000 }).toHaveLength(2);
    return { run, workers: workersOf(run.child.pid!), end: () => killProcess(run.child) };
  }
  const broker = await startBroker();
  const queue = ["--queue", `nats://127.0.0.1:${broker.port}/faults`];
  const workers = ["w1", "w2"].map((name) =>
    startCommand("worker", ...queue, "--dir", root, "--capacity", "8", "--name", name),
  );
  const run = start(...plan(folder, 8), ...queue, ...lease);
  return {
    run: {
      child: run.child,
      ended: run.ended.then(async ({ code, errors }) => {
        for (const { child } of workers) child.kill("SIGTERM");
        const ended = await Promise.all(workers.map((worker) => worker.ended));
        // A worker reports its own errors.
        return {
          code: Math.max(code ?? 1, ...ended.map((one) => one.code ?? 1)),
          errors: errors + ended.map((one) => one.errors).join(""),
        };
      }),
    },
    workers: workers.map(({ child }) => child.pid!),
    end: async () => {
      for (const { child } of [run, ...workers]) await killProcess(child);
      await broker.remove();
    },
  };
}

describe.each(["processes", "queue"] as const)("workers of a run (%s)", (kind) => {
  let started: Started | null = null;
  let undisturbed: Awaited<ReturnType<typeof resultOf>> | null = null;
  afterEach(async () => {
    await started?.end();
    turnMs = 15;
  });
  const begin = async (name: string): Promise<Started & { readonly folder: string }> => {
    if (undisturbed === null) {
      const calm = join(root, `calm-${kind}`);
      expect(await start(...plan(calm, 8)).ended).toMatchObject({ code: 0 });
      undisturbed = await resultOf(calm);
    }
    turnMs = 150;
    const folder = join(root, `${name}-${kind}`);
    started = await withWorkers(kind, folder);
    await expect.poll(() => indexed(folder), { timeout: 60_000 }).toBeGreaterThan(4);
    return { ...started, folder };
  };

  test.skipIf(kind === "queue" && natsServer === undefined)(
    "one that is stopped for two leases comes back too late, and changes nothing",
    { timeout: 180_000 },
    async () => {
      const { run, workers, folder } = await begin("stopped");
      process.kill(workers[0]!, "SIGSTOP");
      await rest(7000);
      process.kill(workers[0]!, "SIGCONT");
      const { code, errors } = await run.ended;
      expect(code, errors).toBe(0);
      expect(await resultOf(folder)).toEqual(undisturbed);
    },
  );

  test.skipIf(process.platform !== "linux" || (kind === "queue" && natsServer === undefined))(
    "one whose disk is full gives back what it has, and goes on when there is room",
    { timeout: 180_000 },
    async () => {
      const { run, workers, folder } = await begin("full");
      const limit = (bytes: string): void =>
        void execFileSync("prlimit", ["--pid", String(workers[0]!), `--fsize=${bytes}`]);
      // The system now refuses all further bytes of its files.
      limit("1:unlimited");
      await rest(3000);
      limit("unlimited:unlimited");
      const { code, errors } = await run.ended;
      expect(code, errors).toBe(0);
      expect(errors).toMatch(/is given back: .*EFBIG/);
      expect(await resultOf(folder)).toEqual(undisturbed);
    },
  );
});

test("a run of one process that was killed continues with two, from its journal", { timeout: 180_000 }, async () => {
  const calm = start(...plan(join(root, "calm-one"), 8));
  calls = 0;
  expect(await calm.ended).toMatchObject({ code: 0 });
  const expected = calls;
  const folder = join(root, "one-then-two");
  calls = 0;
  const first = start(...plan(folder, 8));
  await expect.poll(() => calls, { timeout: 60_000 }).toBeGreaterThan(expected / 3);
  await killProcess(first.child);
  const { code, errors } = await start("--resume", folder, "--processes", "2").ended;
  expect(code, errors).toBe(0);
  expect(await resultOf(folder)).toEqual(await resultOf(join(root, "calm-one")));
  expect(await leftBehind(folder)).toEqual([]);
  // Extra calls: the cancelled call of each of the 16 episodes in flight, and a few replies that no
  // process received.
  expect(calls).toBeLessThanOrEqual(expected + 32);
});

test("workers and coordinators that are killed change nothing", { timeout: isFull ? 1_800_000 : 240_000 }, async () => {
  const groupSize = isFull ? 32 : 8;
  const alone = start(...plan(join(root, "alone"), groupSize));
  expect((await alone.ended).code).toBe(0);
  const undisturbed = await resultOf(join(root, "alone"));
  expect(undisturbed.groups.some(({ decision }) => decision === "kept")).toBe(true);

  const random = createRandom(11);
  const done = { workers: 0, coordinators: 0, runs: 0 };
  const seen = new Set<number>();
  while (done.workers + done.coordinators < kills) {
    const folder = join(root, `run-${done.runs++}`);
    let run = start(...plan(folder, groupSize), "--processes", "2");
    let before = 1;
    for (let ended = false; !ended;) {
      const how = await Promise.race([run.ended, rest(random.integer(300), null)]);
      if (how !== null) {
        expect(how, how.errors).toMatchObject({ code: 0 });
        ended = true;
        continue;
      }
      const workers = workersOf(run.child.pid!);
      for (const pid of workers) seen.add(pid);
      // Each process makes progress before the next is killed.
      const lines = (await readFile(join(folder, "index.jsonl"), "utf8").catch(() => "")).split("\n").length;
      if (lines <= before || done.workers + done.coordinators >= kills) continue;
      before = lines;
      if (random.next() < 0.7 && workers.length > 0) {
        try {
          process.kill(workers[random.integer(workers.length)]!, "SIGKILL");
          done.workers++;
        } catch {
          // The process has ended by itself meanwhile.
        }
      } else {
        run.child.kill("SIGKILL");
        done.coordinators++;
        await run.ended;
        run = start("--resume", folder, "--processes", "2");
      }
    }
    expect(await resultOf(folder)).toEqual(undisturbed);
    expect(await leftBehind(folder)).toEqual([]);
    process.stdout.write(`${done.workers} workers and ${done.coordinators} coordinators killed in ${done.runs} runs\n`);
    await killProcess(run.child);
    await rm(folder, { recursive: true });
  }
  expect(done.workers).toBeGreaterThan(0);
  expect(done.coordinators).toBeGreaterThan(0);
  for (const pid of seen) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});
