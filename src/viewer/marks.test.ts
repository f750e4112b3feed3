// Marks of people: kept as lines that several writers append, written only by the page that the
// server sent, compared with judges, and exported as the labels of `eval`.

import { appendFile, cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { rollout } from "../api/rollout.ts";
import { exportView, view } from "../api/view.ts";
import { readLabels } from "../graders/index.ts";
import { Annotations, readMark } from "./annotations.ts";
import { openFolderStore } from "./episode-store.ts";
import { agreementWith, sayingsOf } from "./judge-agreement.ts";
import { RunView, type RunViewOptions } from "./run-view.ts";
import type { Row, Summary } from "./wire/index.ts";

let run = "";
beforeAll(async () => {
  const cwd = await mkdtemp(join(tmpdir(), "trainable-agents-marks-"));
  const settings = {
    env: "bookshop",
    engine: "expert",
    expertNoise: 0.5,
    tasks: "0-3",
    groupSize: 2,
    seed: 3,
  } as const;
  await rollout({ ...settings, out: "run", quiet: true, cwd, variables: {} });
  run = join(cwd, "run");
}, 60_000);

const emptyFolder = (): Promise<string> => mkdtemp(join(tmpdir(), "trainable-agents-marks-"));
const copyOfRun = async (): Promise<string> => {
  const folder = await emptyFolder();
  await cp(run, folder, { recursive: true });
  return folder;
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const open = async (folder: string, options: RunViewOptions = {}): Promise<RunView> => {
  const viewed = new RunView(await openFolderStore(folder), "0", options);
  closing.push(() => viewed.close());
  await viewed.readAll();
  return viewed;
};

const facts = (id: string) => ({ id, taskId: "t", taskIndex: 0, sampleIndex: 0 });
const right = { verdict: "right", fault: null, why: "" } as const;

describe("annotations", () => {
  it("are whole lines of several writers, and survive a writer that was killed in the middle of one", async () => {
    const path = join(await emptyFolder(), "annotations.jsonl");
    const [one, two] = [new Annotations(path), new Annotations(path)];
    await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        (at % 2 === 0 ? one : two).add(facts(`e${at}`), { ...right, why: "é".repeat(at * 40) }),
      ),
    );
    await Promise.all([one.refresh(), one.refresh(), one.refresh()]);
    expect([one.marks.size, one.unreadable]).toEqual([40, 0]);
    await two.add(facts("later"), right);
    await two.add(facts("later"), null);
    await one.refresh();
    expect([one.marks.size, one.unreadable]).toEqual([40, 0]);
    await appendFile(path, '{"format":1,"episode":"e0","verdict":"wro');
    await one.refresh();
    expect([one.marks.get("e0")?.verdict, one.unreadable]).toEqual(["right", 0]);
    await two.add(facts("e1"), { verdict: "wrong", fault: "user", why: "\n\u2028\ud800" });
    await one.refresh();
    expect(one.marks.get("e1")).toMatchObject({ verdict: "wrong", fault: "user" });
    expect([one.marks.size, one.unreadable]).toEqual([40, 1]);
    await two.add(facts("e1"), null);
    await one.refresh();
    expect(one.marks.has("e1")).toBe(false);
    // Another file in its place is read from its beginning.
    await rm(path);
    await writeFile(path, `${JSON.stringify({ episode: "new", verdict: "right" })}\n[]\nnull\n{"episode":5}\n`);
    await one.refresh();
    expect([[...one.marks.keys()], one.unreadable]).toEqual([["new"], 3]);
  });

  it("are read only from a file of marks", async () => {
    const folder = await emptyFolder();
    await writeFile(join(folder, "target"), "");
    await symlink(join(folder, "target"), join(folder, "link"));
    await expect(new Annotations(join(folder, "link")).add(facts("e"), right)).rejects.toThrow(/Cannot keep the mark/);
    expect(await readFile(join(folder, "target"), "utf8")).toBe("");
    const asFolder = new Annotations(folder);
    await asFolder.refresh();
    expect(asFolder.fault).not.toBeNull();
    for (const value of [
      null,
      5,
      [],
      {},
      { verdict: "good" },
      { verdict: "right", fault: "agent" },
      { verdict: "wrong", fault: "me" },
      { verdict: "wrong", why: 5 },
    ]) {
      expect(readMark(value)).toBeUndefined();
    }
    expect(readMark({ verdict: "wrong", why: "x".repeat(9999) })?.why).toHaveLength(2000);
  });
});

describe("the marks of a run", () => {
  it("are shown with their episodes, filter them, and become labels", async () => {
    const folder = await copyOfRun();
    const viewed = await open(folder);
    const rows = await viewed.allRows();
    await viewed.mark("1", right);
    await viewed.mark(rows[1]!.id, { verdict: "wrong", fault: "user", why: "It <b>left</b>." });
    await viewed.mark("3", { verdict: "wrong", fault: null, why: "" });
    await viewed.mark("4", right);
    await viewed.mark("4", null);
    await expect(viewed.mark("99", right)).rejects.toThrow(/Cannot find episode/);
    const { marks } = await viewed.summary();
    expect(marks).toMatchObject({ right: 1, wrong: 2, labels: 1, unknown: 0, unreadable: 0, fault: null });
    expect(Object.keys(marks.marks)).toEqual(["1", "2", "3"]);
    expect((await viewed.episode("2")).mark).toMatchObject({ verdict: "wrong", fault: "user", why: "It <b>left</b>." });
    for (const [label, count] of Object.entries({ right: 1, wrong: 2, unmarked: rows.length - 3 })) {
      expect((await viewed.rows({ reason: { kind: "mark", label }, from: 0, count: 1 })).matched).toBe(count);
    }
    const file = join(folder, "labels.json");
    await exportView({ sources: [folder], file });
    const { taskIndex: task, sampleIndex: trial } = rows[1]!;
    expect([...(await readLabels(file, "labels.json")).entries()]).toMatchObject([
      ["labels", [{ task, trial, label: "user" }]],
    ]);
    await expect(exportView({ sources: [folder], file, where: "reward < 1" })).rejects.toThrow(/Cannot export labels/);
    const page = join(folder, "page.html");
    await exportView({ sources: [folder], file: page });
    expect(await readFile(page, "utf8")).not.toContain('<meta name="write-token"');
    // Marks of a run of before do not become marks of this one.
    await appendFile(join(folder, "annotations.jsonl"), '{"episode":"gone","verdict":"right"}\n{"epi\n');
    const again = await open(folder);
    expect((await again.summary()).marks).toMatchObject({ right: 1, wrong: 2, unknown: 1, unreadable: 1 });
  });

  it("are compared with the reward, with judges, and with the attribution of faults", () => {
    const row = (number: number, reward: number | null, fault: string | null): Row =>
      ({
        number,
        taskId: `t${number % 4}`,
        reward,
        fault: fault === null ? null : { fault, rule: "", evidence: "", by: "judge" },
      }) as unknown as Row;
    const mark = (verdict: "right" | "wrong", fault: "agent" | "user" | null = null) => ({
      verdict,
      fault,
      why: "",
      at: "",
    });
    const judged = (value: number) =>
      sayingsOf(
        {
          grade: { metrics: { rubric: value, "rubric.polite": 4, environment: 1 } },
          events: [{ type: "judgement", judgement: { grader: "rubric" } }],
        },
        { isFile: false },
      );
    expect(judged(0.5)).toEqual([
      { judge: "rubric", rule: "0.5 or more", isRight: true },
      { judge: "environment", rule: "the reward is 1", isRight: true },
    ]);
    const table = agreementWith([
      { row: row(0, 1, null), mark: mark("right"), sayings: judged(0.9) },
      { row: row(1, 1, null), mark: mark("wrong", "agent"), sayings: judged(0.2) },
      { row: row(2, 0, "user"), mark: mark("wrong", "user"), sayings: judged(0.1) },
      { row: row(3, 0, "agent"), mark: mark("wrong", "user"), sayings: judged(0.8) },
      { row: row(4, null, null), mark: mark("right"), sayings: [] },
    ]);
    const of = (judge: string) => table.find((one) => one.judge === judge);
    expect(of("reward")).toMatchObject({ episodes: 4, tasks: 4, agreed: 3, share: 0.75, kappa: 0.5 });
    expect(of("reward")?.counts[0]).toEqual({ person: "wrong", judge: "wrong", episodes: 2 });
    expect(of("rubric")).toMatchObject({ episodes: 4, agreed: 3, kappa: 0.5 });
    expect(of("whose fault, by judge")).toMatchObject({ episodes: 2, agreed: 1, kappa: 0 });
    for (const odd of [null, 5, {}, { grade: { metrics: [] }, events: {} }, { events: [null, { judgement: 5 }] }]) {
      expect(sayingsOf(odd as never, { isFile: true })).toEqual([]);
    }
    expect(sayingsOf({ grade: { metrics: { model_graded: 1, seconds: 90 } } }, { isFile: true })).toHaveLength(1);
  });
});

describe("the server", () => {
  const serve = async (options: Parameters<typeof view>[0]) => {
    const viewer = await view({ ...options, listen: options.listen ?? "127.0.0.1:0", variables: {} });
    closing.push(() => viewer.close());
    const url = new URL(viewer.url.replace("0.0.0.0", "127.0.0.1"));
    const html = await (await fetch(url)).text();
    const token = /name="write-token" content="([0-9a-f]+)"/.exec(html)?.[1] ?? "";
    const post = async (headers: Record<string, string>, body: unknown, path = "api/mark?run=0") => {
      const response = await fetch(new URL(path, url.origin), {
        method: "POST",
        headers,
        body: typeof body === "string" ? body : JSON.stringify(body),
      });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };
    return { url, token, post };
  };

  it("keeps marks of its own page alone", async () => {
    const folder = await copyOfRun();
    const { url, token, post } = await serve({ sources: [folder] });
    const body = { episode: "2", mark: { verdict: "wrong", fault: "agent", why: "<img src=x onerror=alert(1)>" } };
    const own = { "x-viewer-write": token, "content-type": "application/json" };
    for (const [headers, status] of [
      [{}, 403],
      [{ "x-viewer-write": `${token}0` }, 403],
      [{ ...own, origin: "http://evil.example" }, 403],
      [{ ...own, origin: "null" }, 403],
      [{ ...own, origin: "http://127.0.0.1:1" }, 403],
    ] as const) {
      expect((await post(headers, body)).status).toBe(status);
    }
    for (const odd of [
      "{",
      "[]",
      "null",
      { episode: 2, mark: null },
      { episode: "2" },
      { episode: "2", mark: { verdict: "maybe" } },
    ]) {
      expect(await post(own, odd)).toMatchObject({
        status: 400,
        body: { error: expect.stringMatching(/malformed/) as string },
      });
    }
    expect((await post(own, { ...body, more: "x".repeat(70_000) })).status).toBe(413);
    expect((await post(own, { ...body, episode: "nowhere" })).status).toBe(400);
    expect((await post(own, body, "api/mark?run=7")).status).toBe(400);
    expect((await post(own, body, "api/rows")).status).toBe(405);
    await expect(readFile(join(folder, "annotations.jsonl"))).rejects.toThrow(/ENOENT/);
    expect(await post({ ...own, origin: url.origin }, body)).toMatchObject({ status: 200, body: { mark: body.mark } });
    const summary = (await (await fetch(`${url.origin}/api/summary?run=0`)).json()) as Summary;
    expect(summary.marks.marks[2]).toMatchObject(body.mark);
    expect(await (await fetch(`${url.origin}/api/labels?run=0`)).json()).toMatchObject({
      labels: [{ label: "agent" }],
    });
  });

  it("keeps none without its token, and none where it only shows", async () => {
    const folder = await copyOfRun();
    const body = { episode: "2", mark: { verdict: "right" } };
    const served = await serve({ sources: [folder], listen: "0.0.0.0:0" });
    const access = served.url.searchParams.get("token")!;
    expect((await served.post({ "x-viewer-write": served.token }, body)).status).toBe(403);
    expect((await served.post({ "x-viewer-write": served.token, "x-viewer-token": access }, body)).status).toBe(200);
    const shown = await serve({ sources: [folder], readOnly: true });
    expect(shown.token).toBe("");
    expect(await shown.post({ "x-viewer-write": "" }, body)).toMatchObject({
      status: 403,
      body: { error: expect.stringMatching(/--read-only/) as string },
    });
    const runs = (await (await fetch(`${shown.url.origin}/api/runs`)).json()) as readonly {
      readonly readOnly: string;
    }[];
    expect(runs[0]?.readOnly).toMatch(/started with --read-only/);
  });
});
