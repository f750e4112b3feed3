// The list of runs below a folder: what is found, what it costs, and folders that are made to do harm.

import { execFileSync } from "node:child_process";
import { appendFile, cp, mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { rollout } from "../api/rollout.ts";
import { exportView, view } from "../api/view.ts";
import { openFolderStore } from "./episode-store.ts";
import { walkRuns } from "./home-walk.ts";
import { Home } from "./home.ts";
import { openTrainingStore } from "./training.ts";
import type { HomeEntry } from "./wire/index.ts";

let run = "";
beforeAll(async () => {
  const cwd = await mkdtemp(join(tmpdir(), "trainable-agents-home-"));
  const settings = {
    env: "bookshop",
    engine: "expert",
    expertNoise: 0.5,
    tasks: "0-5",
    groupSize: 4,
    seed: 3,
  } as const;
  await rollout({ ...settings, out: "run", quiet: true, cwd, variables: {} });
  run = join(cwd, "run");
}, 60_000);

const emptyFolder = (): Promise<string> => mkdtemp(join(tmpdir(), "trainable-agents-home-"));
const homes: Home[] = [];
afterEach(async () => {
  for (const home of homes.splice(0)) await home.close();
});

const open = (folder: string): Home => {
  const home = new Home(folder, (path) =>
    path.endsWith("training") ? openTrainingStore(path) : openFolderStore(path),
  );
  homes.push(home);
  return home;
};

/** The list once all rates are read. */
const listed = async (home: Home): Promise<readonly HomeEntry[]> => {
  for (;;) {
    const page = await home.page({ count: 100 });
    if (!page.isReading) return page.entries;
  }
};

const manifestOf = async (folder: string, changes: Record<string, unknown>): Promise<void> => {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, "run.json"), JSON.stringify({ format: 4, status: "done", ...changes }));
  await writeFile(join(folder, "episodes.jsonl"), "");
};

/** Three lines of an index: two tasks, one of which passes. */
const index = ["a", "a", "b"]
  .map((id, at) => JSON.stringify({ number: at + 1, task: { id }, reward: id === "a" ? 1 : 0.5 }))
  .join("\n");

describe("the list", () => {
  it("has the rates of the page of a run, and opens what it lists", async () => {
    const folder = await emptyFolder();
    await cp(run, join(folder, "runs", "one"), { recursive: true });
    const home = open(folder);
    const [entry] = await listed(home);
    const opened = await home.open("runs/one");
    await opened.readAll();
    const { passRate, interval, episodes, facts } = await opened.summary();
    expect(entry).toMatchObject({ key: "runs/one", kind: "run", episodes, status: "done", isLive: false, cost: 0 });
    expect(entry?.passRate).toBeCloseTo(passRate!, 12);
    expect(entry?.interval).toEqual(interval);
    expect(facts.key).toBe("runs/one");
    expect(await home.open("runs/one")).toBe(opened);
    for (const outside of ["..", "../run", "/etc", "runs", "runs/one/../../..", ""]) {
      await expect(home.open(outside)).rejects.toThrow(/Cannot find run/);
    }
  });

  it("shows runs, trainings and logs of other tools together, newest first, by words and columns", async () => {
    const folder = await emptyFolder();
    const agent = { name: "gpt-4o-mini" };
    const totals = { episodesFinished: 3, graded: 3, passed: 2, agentCost: 0.25, userCost: 0.5, judgeCost: 0 };
    await manifestOf(join(folder, "api"), { startedAt: "2026-01-02T00:00:00Z", agent, totals });
    await writeFile(join(folder, "api", "index.jsonl"), index);
    await manifestOf(join(folder, "old"), { startedAt: "2025-01-02T00:00:00Z", totals: { ...totals, userCost: null } });
    await mkdir(join(folder, "training"));
    const learning = { algorithm: "grpo", evalTasks: 10 };
    await writeFile(join(folder, "training", "train.json"), JSON.stringify({ environment: "bookshop", learning }));
    await writeFile(join(folder, "training", "metrics.csv"), "step,pass_rate,held_out_pass_rate\n1,0.2,\n2,0.6,0.5\n");
    const row = { example_id: 0, prompt: [{ role: "user", content: "Hi" }], completion: [], reward: 1, metrics: {} };
    await writeFile(join(folder, "results.jsonl"), `${JSON.stringify(row)}\n`);
    await writeFile(join(folder, "package.json"), "{}");
    await writeFile(join(folder, "notes.jsonl"), '{"text": "nothing of ours"}\n');
    const home = open(folder);
    const entries = await listed(home);
    expect(entries.map(({ key }) => key).toSorted()).toEqual(["api", "old", "results.jsonl", "training"]);
    const of = (key: string): HomeEntry => entries.find((entry) => entry.key === key)!;
    expect(of("api")).toMatchObject({ policy: "gpt-4o-mini", episodes: 3, passRate: 0.5, cost: 0.75 });
    expect(of("old")).toMatchObject({ cost: null, passRate: 2 / 3, interval: null });
    expect(of("training")).toMatchObject({ kind: "training", curve: [0.2, 0.6], passRate: 0.5, policy: "grpo" });
    expect(of("training").interval).not.toBeNull();
    expect(of("results.jsonl")).toMatchObject({ kind: "file", environment: "verifiers", episodes: 1, passRate: 1 });
    expect(entries.findIndex(({ key }) => key === "api")).toBeLessThan(entries.findIndex(({ key }) => key === "old"));
    expect((await home.page({ count: 10, filter: "GPT done" })).entries.map(({ key }) => key)).toEqual(["api"]);
    expect((await home.page({ count: 1, sort: "-passRate" })).entries[0]?.key).toBe("results.jsonl");
    expect(await home.page({ count: 1, filter: "no such run" })).toMatchObject({ matched: 0, total: 4 });
  });

  it("keeps every run open that answers a request, and those that were used a moment ago", async () => {
    const folder = await emptyFolder();
    const names = Array.from({ length: 70 }, (_, at) => `run-${at}`);
    for (const name of names) await manifestOf(join(folder, name), {});
    const home = open(folder);
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const inUse = home.use("run-0", async (opened) => {
      await held;
      return opened;
    });
    const [second, third] = [await home.open("run-1"), await home.open("run-2")];
    for (const name of names.slice(3, 9)) await home.open(name);
    expect(await home.open("run-1")).toBe(second);
    for (const name of names.slice(9)) await home.open(name);
    // 70 runs are more than stay open: the one that was used longest ago is closed, and is opened again.
    expect(await home.open("run-2")).not.toBe(third);
    release();
    const first = await inUse;
    expect(await home.open("run-0")).toBe(first);
    await first.refresh();
    expect(first.facts.key).toBe("run-0");
  }, 120_000);

  it("follows runs: new ones, those that grow, and those whose process is gone", async () => {
    const folder = await emptyFolder();
    const home = open(folder);
    expect(await listed(home)).toEqual([]);
    const live = join(folder, "live");
    await manifestOf(live, { status: "running" });
    await writeFile(join(live, "run.lock"), JSON.stringify({ pid: process.pid, host: "elsewhere", since: "" }));
    await writeFile(join(live, "index.jsonl"), `${index.split("\n")[0]}\n`);
    await home.refresh(true);
    expect(await listed(home)).toMatchObject([{ status: "running", isLive: true, episodes: 1, passRate: 1 }]);
    await appendFile(join(live, "index.jsonl"), index.split("\n").slice(1).join("\n"));
    await home.refresh(true);
    expect(await listed(home)).toMatchObject([{ episodes: 3, passRate: 0.5 }]);
    await rm(join(live, "run.lock"));
    await home.refresh(true);
    expect(await listed(home)).toMatchObject([{ status: "killed", isLive: false, episodes: 3 }]);
    await rm(live, { recursive: true });
    await home.refresh(true);
    expect(await listed(home)).toEqual([]);
  });
});

describe("a hostile folder", () => {
  it("shows half-written runs and runs of other programs with the reason", async () => {
    const folder = await emptyFolder();
    for (const [name, text] of Object.entries({ cut: '{"format": 4, "st', list: "[]", later: '{"format": 99}' })) {
      await manifestOf(join(folder, name), {});
      await writeFile(join(folder, name, "run.json"), text);
    }
    await mkdir(join(folder, "begun"));
    await writeFile(join(folder, "begun", "episodes.jsonl"), "");
    const foreign = { none: '{"tool": "another"}', text: '{"format": "csv"}', many: "[1]", three: '{"format": 3}' };
    for (const [name, text] of Object.entries(foreign)) {
      await mkdir(join(folder, name));
      await writeFile(join(folder, name, "run.json"), text);
    }
    await manifestOf(join(folder, "odd"), { startedAt: 5, environment: "text", model: [], totals: { graded: "9" } });
    await writeFile(join(folder, "odd", "index.jsonl"), '{"number":1}\n[]\nnull\n{"task":{"id":"x"},"reward":');
    const entries = await listed(open(folder));
    const faults = Object.fromEntries(entries.map(({ key, fault }) => [key, fault]));
    expect(faults).toMatchObject({
      cut: expect.stringMatching(/is not JSON: it is being written, or was cut/) as string,
      list: expect.stringMatching(/holds no JSON object/) as string,
      later: expect.stringMatching(/format 99, and this version reads format 4/) as string,
      begun: expect.stringMatching(/has no "run.json"/) as string,
      odd: null,
      none: expect.stringMatching(/not a run of ours: its "run.json" has no "format"/) as string,
      text: expect.stringMatching(/not a run of ours: its "run.json" has format "csv"/) as string,
      many: expect.stringMatching(/not a run of ours: "run.json" holds no JSON object/) as string,
      three: expect.stringMatching(/format 3, and this version reads format 4/) as string,
    });
    expect(entries.filter(({ status }) => status === "unreadable")).toHaveLength(8);
  });

  it("shows the logs of a folder with a run.json of another program, in place of the folder", async () => {
    const folder = await emptyFolder();
    const row = { example_id: 0, prompt: [{ role: "user", content: "Hi" }], completion: [], reward: 1, metrics: {} };
    for (const name of ["logs", "none"]) {
      await manifestOf(join(folder, name, "below"), {});
      await writeFile(join(folder, name, "run.json"), '{"tool": "another"}');
    }
    await writeFile(join(folder, "logs", "results.jsonl"), `${JSON.stringify(row)}\n`);
    // The log of another tool may have the name of our description.
    await mkdir(join(folder, "tau"));
    await writeFile(
      join(folder, "tau", "run.json"),
      JSON.stringify([{ task_id: 0, reward: 1, info: {}, traj: [], trial: 0 }]),
    );
    const entries = await listed(open(folder));
    expect(Object.fromEntries(entries.map(({ key, kind, status }) => [key, `${kind} ${status}`]))).toEqual({
      "logs/results.jsonl": "file done",
      "logs/below": "run done",
      none: "run unreadable",
      "none/below": "run done",
      "tau/run.json": "file done",
    });
    const viewer = await view({ sources: [join(folder, "none")], listen: "127.0.0.1:0", variables: {} });
    try {
      expect(await (await fetch(`${viewer.url}api/home?count=9`)).json()).toMatchObject({ total: 2 });
    } finally {
      await viewer.close();
    }
  });

  it("ends in cycles, lists a linked run once, and never waits for a pipe", async () => {
    const folder = await emptyFolder();
    await manifestOf(join(folder, "runs", "one"), {});
    await symlink(folder, join(folder, "runs", "up"));
    await symlink(join(folder, "runs", "one"), join(folder, "latest"));
    await symlink(join(folder, "self"), join(folder, "self"));
    await symlink(join(folder, "nowhere"), join(folder, "broken"));
    execFileSync("mkfifo", [join(folder, "pipe.jsonl")]);
    const elsewhere = await emptyFolder();
    await manifestOf(join(elsewhere, "two"), {});
    await symlink(elsewhere, join(folder, "linked"));
    await symlink(join(elsewhere, "two"), join(folder, "same"));
    const entries = await listed(open(folder));
    expect(entries.map(({ key }) => key).toSorted()).toEqual(["runs/one", "same"]);
  });

  it("is searched within limits, and says so", async () => {
    const folder = await emptyFolder();
    for (let at = 0; at < 8; at++) await manifestOf(join(folder, `run-${at}`), {});
    await manifestOf(join(folder, "a", "b", "c"), {});
    await manifestOf(join(folder, "node_modules", "run"), {});
    await manifestOf(join(folder, ".hidden", "run"), {});
    const all = await walkRuns(folder);
    expect([all.found.length, all.notes]).toEqual([9, []]);
    expect(await walkRuns(folder, { found: 3 })).toMatchObject({ notes: [expect.stringMatching(/first 3 runs/)] });
    expect((await walkRuns(folder, { found: 3 })).found).toHaveLength(3);
    const few = await walkRuns(folder, { folders: 4 });
    expect([few.found.length <= 4, few.notes.join()]).toEqual([true, expect.stringMatching(/first 4 folders/)]);
    expect((await walkRuns(folder, { depth: 1 })).notes.join()).toMatch(/more than 1 levels down/);
    expect((await walkRuns(folder, { names: 5 })).notes.join()).toMatch(/first 5 names/);
    await expect(walkRuns(join(folder, "nowhere"))).rejects.toThrow(/ENOENT/);
  });
});

describe("view", () => {
  it("lists a folder that is no run, and the current one where none is named", async () => {
    const folder = await emptyFolder();
    await cp(run, join(folder, "runs", "one"), { recursive: true });
    await cp(run, join(folder, "runs", "two"), { recursive: true });
    for (const options of [{ sources: ["runs"] }, {}]) {
      const viewer = await view({ ...options, cwd: folder, listen: "127.0.0.1:0", variables: {} });
      try {
        const ask = async (path: string): Promise<unknown> => (await fetch(`${viewer.url}api/${path}`)).json();
        const below = "sources" in options ? "" : "runs/";
        expect(await ask("runs")).toEqual([]);
        const listedFolder = join(folder, "sources" in options ? "runs" : "");
        expect(await ask("home?count=10")).toMatchObject({ folder: listedFolder, total: 2 });
        const key = encodeURIComponent(`${below}one`);
        expect(await ask(`facts?run=${key}`)).toMatchObject({ name: "one", hasEpisodes: true });
        expect(await ask(`rows?run=${key}&count=3`)).toMatchObject({ total: 24 });
        expect(await ask(`compare?a=${key}&b=${encodeURIComponent(`${below}two`)}`)).toMatchObject({
          keys: [`${below}one`, `${below}two`],
          pairs: [{ lost: 0, gained: 0 }],
        });
        expect(await ask("rows?run=nowhere")).toMatchObject({
          error: expect.stringMatching(/Cannot find run/) as string,
        });
      } finally {
        await viewer.close();
      }
    }
    await expect(exportView({ sources: ["."], cwd: folder, file: "page.html" })).rejects.toThrow(/name one of them/);
    await expect(view({ sources: ["."], cwd: folder, logprobs: "x.jsonl" })).rejects.toThrow(/name the run/);
  });
});
