// Episodes that an outside program runs, started by a service or in a rollout: real child
// processes, which sample over HTTP from the embedded model, print their reward, crash, hang or are
// abandoned midway.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Episode } from "../core/index.ts";
import { episodeSamples } from "../rollout/index.ts";
import { openRunFolder } from "../store/index.ts";
import { rollout } from "./rollout.ts";
import { type RunningService, serve, type ServeOptions } from "./serve.ts";

/** A program with two turns, which then does as its task says. */
const agent = `
import { spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
const task = JSON.parse(process.env.TRAINABLE_AGENTS_TASK);
const messages = [];
for (const content of ["Hello.", "Goodbye."]) {
  messages.push({ role: "user", content });
  const answer = await fetch(process.env.TRAINABLE_AGENTS_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { authorization: "Bearer " + process.env.TRAINABLE_AGENTS_SESSION, "content-type": "application/json" },
    body: JSON.stringify({ model: "policy", messages, temperature: 0 }),
  });
  if (!answer.ok) { console.error("status " + answer.status); process.exit(4); }
  messages.push((await answer.json()).choices[0].message);
  if (task.waits && !existsSync(task.waits)) {
    writeFileSync(task.waits, "");
    await new Promise((resolve) => setTimeout(resolve, 60_000));
  }
}
if (task.hangs) {
  const beat = "setInterval(() => require('node:fs').appendFileSync(process.argv[1], '.'), 20)";
  spawn(process.execPath, ["-e", beat, task.hangs], { stdio: "ignore" });
  await new Promise((resolve) => setTimeout(resolve, 60_000));
}
if (task.failsOnce) {
  let isFirst = true;
  try { writeFileSync(task.failsOnce, "", { flag: "wx" }); } catch { isFirst = false; }
  if (isFirst) process.exit(3);
}
if (task.fails) { console.error("its world is gone, key " + process.env.TRAINABLE_AGENTS_SESSION); process.exit(3); }
if (task.throws) throw new TypeError("no world for " + process.env.TRAINABLE_AGENTS_SESSION);
if (!task.silent) console.log(JSON.stringify({ reward: task.reward ?? 1 }));
`;

let root = "";
const services: RunningService[] = [];
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "agent-command-"));
  await writeFile(join(root, "agent.mjs"), agent);
});
afterEach(async () => {
  await Promise.all(services.splice(0).map((service) => service.close({ wait: false })));
  await rm(root, { recursive: true });
});

type Task = Readonly<Record<string, unknown>> & { readonly id: string };

async function writeTasks(tasks: readonly Task[]): Promise<void> {
  await writeFile(join(root, "tasks.jsonl"), tasks.map((task) => `${JSON.stringify(task)}\n`).join(""));
}

function shared() {
  const command = `"${process.execPath}" agent.mjs`;
  return {
    ...({ env: "tasks.jsonl", agentCommand: command, agentTimeout: 20, cwd: root, out: "run" } as const),
    ...({ engine: "embedded", model: "bookshop-1m", maxNewTokens: 8 } as const),
  };
}

async function open(options: ServeOptions = {}): Promise<RunningService> {
  const service = await serve({ ...shared(), listen: "127.0.0.1:0", ...options });
  services.push(service);
  return service;
}

type Group = {
  readonly id: string;
  readonly status: string;
  readonly episodes: readonly {
    readonly id: string;
    readonly outcome: string;
    readonly reward: number | null;
    readonly failure: { readonly boundary: string; readonly code: string; readonly message: string } | null;
  }[];
};

async function ask<T>({ url }: RunningService, path: string, body?: unknown): Promise<T> {
  const post = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const answer = await fetch(`${url}${path}`, body === undefined ? {} : post);
  const read = (await answer.json()) as T;
  if (!answer.ok) throw new Error(JSON.stringify(read));
  return read;
}

async function stored(): Promise<Episode[]> {
  const found: Episode[] = [];
  for await (const episode of openRunFolder(join(root, "run")).episodes()) found.push(episode);
  return found;
}

const trainedTokens = (episode: Episode): number =>
  episodeSamples(episode).samples.reduce((sum, { lossMask }) => sum + lossMask.filter((one) => one === 1).length, 0);

describe("serve() with an agent command", { timeout: 120_000 }, () => {
  test("runs a program for every episode, and its rows are those of any other", async () => {
    await writeTasks([{ id: "one", reward: 0.25 }, { id: "two" }]);
    const service = await open({ writeSamples: true });
    const info = await ask<{ readonly environment: string; readonly splits: unknown }>(service, "/v1/info");
    expect(info).toMatchObject({ environment: "tasks", splits: { train: 2 } });
    const group = await ask<Group>(service, "/v1/groups", { task_index: 0, group_size: 3, wait_seconds: 100 });
    expect(group.status).toBe("ended");
    expect(group.episodes.map(({ outcome, reward }) => [outcome, reward])).toEqual(
      Array.from({ length: 3 }, () => ["completed", 0.25]),
    );
    type Rows = {
      readonly samples: readonly { readonly loss_mask: readonly number[]; readonly reward: number }[];
      readonly dropped_tokens: readonly unknown[];
    };
    for (const format of ["slime", "verl", "trl", "tinker", "verifiers", "sft"]) {
      const rows = await ask<Rows>(service, `/v1/groups/${group.id}/samples?format=${format}`);
      expect(rows.samples).toHaveLength(3);
      expect(rows.dropped_tokens).toEqual([]);
    }
    const episodes = await stored();
    expect(episodes).toHaveLength(3);
    for (const episode of episodes) {
      expect(episode.groupId).toBe(group.id);
      expect(episode.task).toMatchObject({ id: "one", environment: "tasks" });
      expect(episode.trajectory.turns).toHaveLength(2);
      expect(trainedTokens(episode)).toBe(
        episode.trajectory.turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0),
      );
    }
    expect(new Set(episodes.map(({ seed }) => seed)).size).toBe(3);
  });

  test("a producer hands over batches of their groups, with filters and replacements", async () => {
    await writeTasks([
      { id: "one", reward: 2 },
      { id: "bad", fails: true },
      { id: "once", failsOnce: join(root, "failed"), reward: 3 },
    ]);
    const service = await open();
    const { id } = await ask<{ readonly id: string }>(service, "/v1/producers", {
      group_size: 2,
      batch_groups: 2,
      passes: 1,
      replacements: 1,
      weight_version: "w1",
    });
    type Batch = { readonly status: string; readonly groups: readonly (Group & { readonly staleness: number })[] };
    const batch = await ask<Batch>(service, `/v1/producers/${id}/batches/0`, { wait_seconds: 100 });
    const rewards = batch.groups.map(({ episodes }) => episodes.map(({ reward }) => reward));
    expect(rewards.toSorted((left, right) => left.length - right.length)).toEqual([
      [2, 2],
      expect.arrayContaining([null, 3, 3]),
    ]);
    expect(batch.groups.map(({ staleness }) => staleness)).toEqual([0, 0]);
    const last = await ask<Batch>(service, `/v1/producers/${id}/batches/1`, { wait_seconds: 100 });
    expect(last).toMatchObject({ status: "ended", groups: [] });
    const producer = await ask<{ readonly dropped: unknown }>(service, `/v1/producers/${id}`);
    expect(producer.dropped).toEqual({ "not-graded": 1 });
  });

  test("a program that crashes, hangs or says no reward fails its episode alone, and is killed as a tree", async () => {
    const hangs = join(root, "beats");
    await writeTasks([
      { id: "crash", fails: true },
      { id: "hang", hangs },
      { id: "mute", silent: true },
      { id: "good" },
      { id: "throw", throws: true },
    ]);
    const service = await open({ agentTimeout: 4 });
    const groups = await Promise.all(
      [0, 1, 2, 3, 4].map((task) =>
        ask<Group>(service, "/v1/groups", { task_index: task, group_size: 1, wait_seconds: 100 }),
      ),
    );
    const [crash, hang, mute, good, thrown] = groups.map(({ episodes }) => episodes[0]!);
    expect(crash).toMatchObject({ outcome: "failed", reward: null });
    expect(good).toMatchObject({ outcome: "completed", reward: 1, failure: null });
    expect([crash, hang, mute].map((one) => [one?.failure?.boundary, one?.failure?.code])).toEqual([
      ["gateway", "program-failed"],
      ["gateway", "timeout"],
      ["gateway", "no-reward"],
    ]);
    expect(crash?.failure?.message).toContain(
      "code 3: its world is gone, key [key].\nThe end of its standard error:\nits world is gone, key [key]",
    );
    expect(thrown?.failure?.code).toBe("program-failed");
    expect(thrown?.failure?.message).toContain("it ended with code 1: TypeError: no world for [key].\n");
    expect(thrown?.failure?.message).toMatch(/\n {4}at file:.*agent.mjs:\d+:\d+\n/);
    const beats = await readFile(hangs, "utf8");
    expect(beats.length).toBeGreaterThan(0);
    await new Promise((done) => setTimeout(done, 300));
    expect(await readFile(hangs, "utf8")).toBe(beats);
    for (const episode of await stored()) if (episode.reward === null) expect(trainedTokens(episode)).toBe(0);
  });

  test("a limit that a program does not survive is that limit, and no fault", async () => {
    await writeTasks([{ id: "one" }]);
    const service = await open({ maxTurns: 1 });
    const { episodes } = await ask<Group>(service, "/v1/groups", { task_index: 0, group_size: 1, wait_seconds: 100 });
    expect(episodes[0]).toMatchObject({ outcome: "truncated", stop_reason: "max_turns", reward: null, failure: null });
  });

  test("a service that is closed in the middle runs the program again, and drops what the first had sampled", async () => {
    const waits = join(root, "waits");
    await writeTasks([{ id: "one", waits }]);
    const first = await open();
    const { id } = await ask<Group>(first, "/v1/groups", { task_index: 0, group_size: 1 });
    while ((await readFile(waits, "utf8").catch(() => null)) === null)
      await new Promise((done) => setTimeout(done, 50));
    await services.pop()!.close({ wait: false });
    expect(await stored()).toEqual([]);
    const second = await open();
    expect(second.earlier).toEqual({ ended: 0, inFlight: 1 });
    const group = await ask<Group>(second, `/v1/groups/${id}?wait_seconds=100`);
    expect(group.episodes.map(({ outcome, reward }) => [outcome, reward])).toEqual([["completed", 1]]);
    const [episode] = await stored();
    const { turns } = episode!.trajectory;
    expect(turns).toHaveLength(3);
    const { samples, dropped } = episodeSamples(episode!);
    expect(dropped).toEqual([{ turn: 0, count: turns[0]!.sampledTokens.length, reason: dropped[0]?.reason }]);
    expect(samples).toHaveLength(1);
    expect(trainedTokens(episode!)).toBe(turns[1]!.sampledTokens.length + turns[2]!.sampledTokens.length);
    expect(episode!.events.filter(({ type }) => type === "episode-end")).toHaveLength(1);
  });
});

describe("rollout() with an agent command", { timeout: 120_000 }, () => {
  test("runs groups of programs, and its folder is like any other", async () => {
    await writeTasks([{ id: "one" }, { id: "two", fails: true }]);
    const { totals } = await rollout({ ...shared(), groupSize: 2, writeSamples: true });
    expect(totals).toMatchObject({ episodesFinished: 4, meanReward: 1 });
    const rows = (await readFile(join(root, "run", "samples.jsonl"), "utf8")).trim().split("\n");
    expect(rows).toHaveLength(2);
  });

  test.each([
    ["without a command", { agentCommand: null }, "it is a file of tasks"],
    ["with a strategy", { strategy: "react" }, "Cannot use --strategy with --agent-command"],
    ["with several calls", { calls: "several" }, "Cannot use --calls with --agent-command"],
    ["with routed experts", { routedExperts: "2x2" }, "Cannot use --routed-experts with --agent-command"],
    ["with a file that is not there", { env: "nowhere.jsonl" }, "there is no such file"],
  ] as const)("is refused %s", async (_what, options, message) => {
    await writeTasks([{ id: "one" }]);
    await expect(rollout({ ...shared(), ...options })).rejects.toThrow(message);
  });

  test("run.json has the hash of the tasks, and a resume with other tasks is refused", async () => {
    await writeTasks([{ id: "one" }, { id: "two" }]);
    const file = join(root, "tasks.jsonl");
    const manifest = join(root, "run", "run.json");
    const tasks = await readFile(file, "utf8");
    await rollout(shared());
    const facts = JSON.parse(await readFile(manifest, "utf8")) as { environment: { taskHashes: { train: string } } };
    const { train } = facts.environment.taskHashes;
    expect(train).toMatch(/^[0-9a-f]{64}$/);
    await writeFile(manifest, JSON.stringify({ ...facts, status: "interrupted" }));
    const resume = () => rollout({ resume: join(root, "run"), cwd: root });
    await writeFile(file, tasks.replace('"two"', '"three"'));
    await expect(resume()).rejects.toThrow(
      new RegExp(
        `Cannot resume ".*": the tasks of split "train" are not those that it began with \\(hash ${train.slice(0, 12)} then, [0-9a-f]{12} now\\); restore the file`,
      ),
    );
    await writeFile(file, tasks);
    expect((await resume()).totals).toMatchObject({ episodesFinished: 2 });
  });

  test("is refused for tasks that are not, by line", async () => {
    await writeFile(join(root, "tasks.jsonl"), '{"id": "one"}\n{"name": "two"}\n');
    await expect(rollout(shared())).rejects.toThrow(
      /line 2 of ".*": expected a JSON object with an "id"; correct --env/,
    );
    await writeFile(join(root, "tasks.jsonl"), '{"id": "one"}\n{"id": "one"}\n');
    await expect(rollout(shared())).rejects.toThrow(/line 2 of ".*": it has the id "one" of the task on line 1/);
  });
});
