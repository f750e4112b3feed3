// The viewer over a run that a rollout wrote: its counts, searches and answers, and the clients
// that it refuses.

import { createHash } from "node:crypto";
import { appendFile, cp, mkdtemp, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Episode } from "../core/index.ts";
import { exportView, view } from "../api/view.ts";
import { rollout } from "../api/rollout.ts";
import { passRates } from "../statistics/index.ts";
import { episodeSamples } from "../trajectories/index.ts";
import { readEpisodes } from "../store/index.ts";
import { openFolderStore } from "./episode-store.ts";
import { viewerLink } from "../system/running-viewers.ts";
import { RunView } from "./run-view.ts";
import { phrasesOf, taskRows } from "./summary.ts";
import { readMetrics } from "./training.ts";
import { decodeEpisode, expectedActions, type RowFault, samplesOf, type StoredEpisode } from "./wire/index.ts";

let run = "";
beforeAll(async () => {
  const cwd = await mkdtemp(join(tmpdir(), "trainable-agents-viewer-"));
  const settings = {
    env: "bookshop",
    engine: "expert",
    expertNoise: 0.5,
    tasks: "0-9",
    groupSize: 4,
    seed: 3,
  } as const;
  await rollout({ ...settings, out: "run", quiet: true, cwd, variables: {} });
  run = join(cwd, "run");
}, 60_000);

const copyOfRun = async (): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "trainable-agents-viewer-"));
  await cp(run, folder, { recursive: true });
  return folder;
};

const readAll = async (): Promise<Episode[]> => {
  const episodes: Episode[] = [];
  for await (const episode of readEpisodes(run)) episodes.push(episode);
  return episodes;
};

const opened: RunView[] = [];
afterEach(async () => {
  for (const viewed of opened.splice(0)) await viewed.close();
});

/** Closed after the test. */
const open = async (folder: string): Promise<RunView> => {
  const viewed = new RunView(await openFolderStore(folder), "0");
  opened.push(viewed);
  return viewed;
};

describe("a run", () => {
  it("is counted as its episodes are", async () => {
    const viewed = await open(run);
    await viewed.readAll();
    const episodes = await readAll();
    const summary = await viewed.summary();
    expect(summary).toMatchObject({ episodes: 40, read: 40, graded: 40, tasks: 10 });
    expect(summary.passed).toBe(episodes.filter(({ reward }) => reward === 1).length);
    expect(summary.passed).toBeGreaterThan(0);
    expect(summary.passed).toBeLessThan(40);
    expect(summary.masks).toMatchObject({ checked: 40, wrong: [], isDone: true });
    const failing = await viewed.rows({ where: "reward < 1", from: 0, count: 100 });
    expect(failing.matched).toBe(40 - summary.passed);
    for (const reason of summary.reasons.slice(0, 3)) {
      const found = await viewed.rows({ reason, from: 0, count: 1 });
      expect(found.matched).toBe(reason.count);
    }
    const { tasks } = await viewed.tasks({ never: true, from: 0, count: 100 });
    expect(tasks).toHaveLength(summary.neverPassed);
    const [page, first] = [await viewed.episode("36"), episodes[35]!];
    expect(page.row).toMatchObject({ number: 36, id: first.id, reward: first.reward });
    expect(page.group.map(({ sampleIndex }) => sampleIndex)).toEqual([0, 1, 2, 3]);
    await expect(viewed.episode("nobody")).rejects.toThrow(/the run has 40 episodes/);
    await expect(viewed.rows({ where: "reward <", from: 0, count: 1 })).rejects.toThrow(/expected a value/);
  });

  it("says whose fault failures are, how reliable the policy is, and what was said", async () => {
    const folder = await copyOfRun();
    const attribute = async (line: Buffer): Promise<RowFault> => ({
      fault: line.includes("#0") ? "user" : "agent",
      rule: "test",
      evidence: "",
      by: "rules",
    });
    const viewed = new RunView(await openFolderStore(folder), "0", { attribute });
    opened.push(viewed);
    await viewed.readAll();
    const summary = await viewed.summary();
    const failing = summary.unsuccessful;
    expect([summary.passed + failing, summary.errored]).toEqual([40, 0]);
    const { agent, user } = summary.faults!.counts;
    expect([agent + user, summary.faults!.isDone]).toEqual([failing, true]);
    const ofUser = await viewed.rows({ reason: { kind: "fault", label: "user" }, from: 0, count: 100 });
    expect(ofUser.matched).toBe(user);
    const scores = (await viewed.allRows()).map((row) => ({
      taskId: row.taskId,
      trial: row.sampleIndex,
      reward: row.reward,
    }));
    const tallies = taskRows(await viewed.allRows()).map((task) => ({
      taskId: task.taskId,
      trials: task.graded,
      successes: task.passed,
    }));
    expect(summary.domains).toMatchObject([
      { title: "bookshop (train)", tasks: 10, episodes: 40, passRates: passRates(tallies) },
    ]);
    expect(summary.domains[0]?.passRates.map(({ k }) => k)).toEqual([1, 2, 3, 4]);
    // Both courses are of the same episodes; only one is in the order of the tasks.
    const { plan, ended } = summary.courses;
    expect(plan.episodes).toEqual(ended.episodes);
    const mean = (values: readonly (number | null)[]): number =>
      values.reduce<number>((sum, one) => sum + (one ?? 0), 0);
    expect(mean(plan.pass)).toBeCloseTo(mean(ended.pass), 9);
    const first = (await readAll())[0]!;
    const [{ extract } = { extract: null }] = await viewed.extracts([1, 99, -1]);
    const line = first.events.find((event) => event.type === "user-line")!.line.text;
    expect(extract?.firstUserText).toBe(line.replaceAll(/\s+/g, " ").trim());
    expect([extract?.lastAgentText === "", extract?.cost]).toEqual([false, 0]);
    // The attribution of `eval` counts before the rules do.
    const fault = { fault: "environment", rule: "judge", evidence: "said so", by: "judge" };
    await writeFile(
      join(folder, "results.json"),
      JSON.stringify({ format: 1, scores: scores.map((score) => ({ ...score, fault })) }),
    );
    const evaluated = new RunView(await openFolderStore(folder), "0", { attribute });
    opened.push(evaluated);
    await evaluated.readAll();
    expect((await evaluated.summary()).faults?.counts).toEqual({
      agent: 0,
      user: 0,
      environment: failing,
      infrastructure: 0,
    });
  });

  it("has the masks that exports have", async () => {
    const lines = (await readFile(join(run, "episodes.jsonl"), "utf8")).trim().split("\n");
    let at = 0;
    for await (const episode of readEpisodes(run)) {
      const shown = samplesOf(decodeEpisode(JSON.parse(lines[at++]!) as StoredEpisode));
      expect(shown).toEqual({ ...episodeSamples(episode), violation: null });
    }
    expect(at).toBe(40);
    expect(() => decodeEpisode({ id: "other" } as unknown as StoredEpisode)).toThrow(/no turns/);
  });

  it("is searched in what was said, and not in names and packed tokens", async () => {
    const viewed = await open(run);
    const find = async (text: string): Promise<number[]> => {
      const hits: number[] = [];
      for await (const hit of viewed.search(text, new AbortController().signal)) hits.push(hit.number);
      return hits;
    };
    const [first] = await readAll();
    const line = first!.events.find((event) => event.type === "user-line")!;
    expect(await find(line.line.text)).toContain(1);
    expect(await find("observationTokens")).toEqual([]);
    expect(await find('" is not there \u0000 "')).toEqual([]);
  });

  it("is followed while it grows, and read again when it is another one", async () => {
    const folder = await copyOfRun();
    const file = join(folder, "episodes.jsonl");
    const text = await readFile(file, "utf8");
    const half = text.indexOf("\n", text.length / 2) + 1;
    await truncate(file, half + 100);
    await rm(join(folder, "index.jsonl"));
    await writeFile(join(folder, "groups.jsonl"), "");
    const viewed = await open(folder);
    await viewed.readAll();
    const before = (await viewed.allRows()).length;
    const { rows } = await viewed.rows({ from: 0, count: 100 });
    const [newest] = rows;
    expect(before).toBe(text.slice(0, half).split("\n").length - 1);
    await truncate(file, half);
    await appendFile(file, text.slice(half));
    await new Promise((done) => setTimeout(done, 250));
    expect(await viewed.allRows()).toHaveLength(40);
    const later = await viewed.rows({ from: 0, count: 100, after: newest! });
    expect(later.isContinued).toBe(true);
    expect(later.rows.map(({ number }) => number)).toEqual(Array.from({ length: 40 - before }, (_, at) => 40 - at));
    const other = await viewed.rows({ from: 0, count: 100, after: { ...newest!, id: "another run" } });
    expect([other.isContinued, other.rows.length]).toEqual([false, 40]);
    // Replaces the run by another one, and damages a line as a disk might.
    const [first = "", second = ""] = text.split("\n");
    await writeFile(file, `${second}\n${first.replace("seed", "sead")}\n`);
    await rm(join(folder, "index.jsonl"), { force: true });
    await writeFile(join(folder, "groups.jsonl"), "");
    await new Promise((done) => setTimeout(done, 250));
    await expect(viewed.allRows()).rejects.toThrow(/line 2.*not what was written/);
  });

  it("whose process was killed is not live", async () => {
    const folder = await copyOfRun();
    const manifest = JSON.parse(await readFile(join(folder, "run.json"), "utf8")) as Record<string, unknown>;
    await writeFile(join(folder, "run.json"), JSON.stringify({ ...manifest, status: "running" }));
    expect((await open(folder)).facts).toMatchObject({ status: "killed", isLive: false });
    await writeFile(join(folder, "run.lock"), JSON.stringify({ pid: process.pid, host: "elsewhere", since: "" }));
    expect((await open(folder)).facts).toMatchObject({ status: "running", isLive: true });
  });
});

/** Sends headers that fetch does not allow to set. */
const get = async (
  url: string,
  headers: Record<string, string> = {},
  method = "GET",
): Promise<{ readonly status: number; readonly body: string; readonly headers: Record<string, unknown> }> =>
  new Promise((resolve, reject) => {
    const outgoing = request(url, { headers, method }, (incoming) => {
      const parts: Buffer[] = [];
      incoming.on("data", (part: Buffer) => parts.push(part));
      incoming.on("end", () =>
        resolve({ status: incoming.statusCode ?? 0, body: Buffer.concat(parts).toString(), headers: incoming.headers }),
      );
    });
    outgoing.on("error", reject).end();
  });

describe("the server", () => {
  it("serves this machine alone, reads alone, and lets nothing but its own script run", async () => {
    const viewer = await view({ sources: [run], listen: "127.0.0.1:0" });
    try {
      const page = await get(viewer.url);
      const policy = String(page.headers["content-security-policy"]);
      const script = /<script type="module">([\s\S]*)<\/script><\/body>/.exec(page.body)?.[1] ?? "";
      expect(policy).toContain(`script-src 'sha256-${createHash("sha256").update(script).digest("base64")}'`);
      expect(policy).toMatch(/default-src 'none'.*require-trusted-types-for 'script'.*frame-ancestors 'none'/);
      expect((await get(viewer.url, { host: "evil.example" })).status).toBe(403);
      expect((await get(`${viewer.url}api/runs`, { origin: "http://evil.example" })).status).toBe(403);
      expect((await get(`${viewer.url}api/runs`, {}, "POST")).status).toBe(405);
      expect((await get(`${viewer.url}api/__proto__`)).status).toBe(404);
      expect((await get(`${viewer.url}api/rows?run=7`)).body).toMatch(/Cannot find run/);
      const rows = await get(`${viewer.url}api/rows?count=5&where=${encodeURIComponent("turns > 1")}`);
      expect(JSON.parse(rows.body)).toMatchObject({ total: 40 });
      const search = await get(`${viewer.url}api/search?run=0&text=order`);
      expect(JSON.parse(search.body.trim().split("\n").at(-1) ?? "")).toMatchObject({ episodes: 40, isWhole: true });
    } finally {
      await viewer.close();
    }
  });

  it("asks for its token where others could reach it", async () => {
    const viewer = await view({ sources: [run], listen: "0.0.0.0:0" });
    try {
      const url = new URL(viewer.url.replace("0.0.0.0", "127.0.0.1"));
      const token = url.searchParams.get("token")!;
      expect((await get(url.href)).status).toBe(200);
      expect((await get(`${url.origin}/`)).status).toBe(403);
      expect((await get(`${url.origin}/api/runs`, { "x-viewer-token": `${token}0` })).status).toBe(403);
      expect((await get(`${url.origin}/api/runs`, { "x-viewer-token": token })).status).toBe(200);
      expect((await get(`${url.origin}/api/runs?token=${token}`, { origin: "http://evil.example" })).status).toBe(403);
    } finally {
      await viewer.close();
    }
  });

  it("is found by commands while it runs, and not when it was killed", async () => {
    const variables = { TRAINABLE_AGENTS_CACHE: await mkdtemp(join(tmpdir(), "trainable-agents-viewer-")) };
    const viewer = await view({ sources: [run], listen: "127.0.0.1:0", variables });
    const episode = { name: "bookshop:train:0#1", asTokens: true };
    expect(await viewerLink(run, episode, variables)).toBe(`${viewer.url}#/0/episode/bookshop%3Atrain%3A0%231?t=1`);
    expect(await viewerLink(join(run, ".."), null, variables)).toBeNull();
    const folder = join(variables.TRAINABLE_AGENTS_CACHE, "viewers");
    const [name = ""] = await readdir(folder);
    const announced = await readFile(join(folder, name), "utf8");
    await viewer.close();
    expect(await readdir(folder)).toEqual([]);
    await writeFile(join(folder, name), announced);
    expect(await viewerLink(run, null, variables)).toBeNull();
    await writeFile(join(folder, name), "{");
    expect(await viewerLink(run, null, variables)).toBeNull();
  });

  it("says what it cannot open", async () => {
    await expect(view({ sources: ["nowhere"] })).rejects.toThrow(/there is no such folder/);
    await expect(view({ sources: ["http://127.0.0.1:8800"] })).rejects.toThrow(/the folder that it writes, its --out/);
    await expect(view({ sources: [] })).rejects.toThrow(/name a run folder/);
    const viewer = await view({ sources: [run], listen: "127.0.0.1:0" });
    try {
      await expect(view({ sources: [run], listen: new URL(viewer.url).host })).rejects.toThrow(/the port is taken/);
    } finally {
      await viewer.close();
    }
  });
});

describe("an exported page", () => {
  const dataOf = (html: string): Record<string, string> => {
    const packed = /<script type="text\/plain" id="data">([^<]*)</.exec(html)?.[1] ?? "";
    return (JSON.parse(gunzipSync(Buffer.from(packed, "base64")).toString()) as { answers: Record<string, string> })
      .answers;
  };

  it("brings an episode, a filter or a comparison along, and asks nobody", async () => {
    const file = join(await mkdtemp(join(tmpdir(), "trainable-agents-viewer-")), "page.html");
    await exportView({ sources: [run], episode: "36", file });
    const one = await readFile(file, "utf8");
    expect(one).toContain("connect-src 'none'");
    expect(Object.keys(dataOf(one)).filter((path) => path.startsWith("api/episode"))).toHaveLength(2);
    await exportView({ sources: [run], where: "reward < 1", file });
    const failing = dataOf(await readFile(file, "utf8"));
    const { rows } = JSON.parse(failing["api/rows?run=0"]!) as { rows: { number: number; reward: number }[] };
    expect(rows.every(({ number, reward }) => reward < 1 && `api/text?id=${number}&run=0` in failing)).toBe(true);
    await exportView({ sources: [run, run], file });
    expect(JSON.parse(dataOf(await readFile(file, "utf8"))["api/compare"]!)).toMatchObject({ keys: ["0", "1"] });
    const training = await mkdtemp(join(tmpdir(), "trainable-agents-viewer-"));
    await writeFile(join(training, "train.json"), JSON.stringify({ environment: "bookshop" }));
    await writeFile(join(training, "metrics.csv"), "step,pass_rate\n1,0.5\n");
    await exportView({ sources: [training, run], file });
    const both = dataOf(await readFile(file, "utf8"));
    expect(Object.keys(both)).toEqual(expect.arrayContaining(["api/training?run=0", "api/rows?run=1"]));
    await expect(exportView({ sources: [run], where: "reward > 5", file })).rejects.toThrow(/no episode matches/);
    await expect(exportView({ sources: [run], file: join(file, "x") })).rejects.toThrow(/Cannot write/);
  });
});

it("reads a log of metrics that is being written, and one that was resumed", async () => {
  const steps = readMetrics("step,pass_rate,kl\n1,0.5,\n2,0.6,0.1\n2,0.7,0.1\n3,0.");
  expect(steps).toEqual([
    { step: 1, pass_rate: 0.5, kl: null },
    { step: 2, pass_rate: 0.7, kl: 0.1 },
  ]);
});

it("folds what differs from task to task", () => {
  expect(phrasesOf("The data is not as it should be. Not told: $32. Not told: 9 days.")).toEqual([
    "The data is not as it should be.",
    "Not told: …",
  ]);
  expect(phrasesOf("Not as the task expects them: orders #W123, users mia_li_3668.")).toEqual([
    "Not as the task expects them: …",
  ]);
});

it("finds expected actions where environments state them", () => {
  const grade = {
    reward: 0,
    metrics: {},
    log: "",
    info: { reward_info: { actions: [{ name: "cancel", kwargs: { id: "#W1" } }] } },
  };
  expect(expectedActions({ grade, info: {} })).toEqual([{ name: "cancel", arguments: { id: "#W1" } }]);
  expect(expectedActions({ grade: null, info: {} })).toBeNull();
});
