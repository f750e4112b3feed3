// A teacher scores while a run or a service goes on: the file beside the run is that of `score --run`.

import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { createFunctionSampler, createSglangFront } from "../testing/index.ts";
import { exportRun } from "./export-run.ts";
import { rollout } from "./rollout.ts";
import { scoreRun } from "./score-run.ts";

const root = mkdtempSync(join(tmpdir(), "score-while-"));
// Modules that a run loads on request take long on a busy machine, and the time of a test is limited.
beforeAll(async () => {
  await Promise.all([import("./score-while.ts"), import("../engines/embedded/index.ts")]);
}, 300_000);
afterAll(() => rmSync(root, { recursive: true, force: true }));

const settings = {
  env: "bookshop",
  engine: "expert",
  model: "bookshop-nano",
  tasks: "0-2",
  groupSize: 2,
  cwd: root,
  variables: {},
} as const;

const teacher = { teacher: "embedded", teacherModel: "bookshop-nano" } as const;

const linesOf = (out: string): string[] =>
  readFileSync(join(root, out, "teacher-scores.jsonl"), "utf8")
    .trimEnd()
    .split("\n");

describe("rollout with --teacher", () => {
  test("writes the scores of every episode once, and says so", async () => {
    const notices: string[] = [];
    const { totals } = await rollout({
      ...settings,
      ...teacher,
      topTokens: 4,
      out: "beside",
      onEvent: (event) => {
        if (event.type === "notice") notices.push(event.message);
      },
    });
    expect(totals.episodesFinished).toBe(6);
    expect(notices.join("\n")).toContain("Note: the teacher scored 6 episodes");
    const lines = linesOf("beside");
    expect(lines).toHaveLength(7);
    expect(JSON.parse(lines[0]!)).toMatchObject({ engine: "embedded", model: "bookshop-nano", topTokens: 4 });
    const output = join(root, "rows.jsonl");
    await exportRun({ runs: join(root, "beside"), format: "slime", output });
    for (const line of readFileSync(output, "utf8").trimEnd().split("\n")) {
      const row = JSON.parse(line) as { teacher_log_probs: readonly number[]; response_length: number };
      expect(row.teacher_log_probs).toHaveLength(row.response_length);
    }
  });

  test("the file is the one that score --run writes", async () => {
    const run = { ...settings, ...teacher, tasks: "0", out: "one" } as const;
    await rollout(run);
    const score = (folder: string) => scoreRun({ run: folder, teacher: "embedded", model: "bookshop-nano", cwd: root });
    expect(await score("one")).toMatchObject({ end: "done", known: 2, scored: 0 });
    cpSync(join(root, "one"), join(root, "copy"), { recursive: true });
    rmSync(join(root, "copy", "teacher-scores.jsonl"));
    expect(await score("copy")).toMatchObject({ end: "done", known: 0, scored: 2 });
    expect(linesOf("copy").toSorted()).toEqual(linesOf("one").toSorted());
  });

  test("a run that was drained resumes with its scores, and none is written twice", async () => {
    const drain = new AbortController();
    const onEvent = (event: { readonly type: string }): void => {
      if (event.type === "progress") drain.abort();
    };
    const options = { ...settings, ...teacher, concurrency: 1, out: "drained" } as const;
    const first = await rollout({ ...options, drain: drain.signal, onEvent });
    expect(first.status).toBe("interrupted");
    expect(linesOf("drained").length).toBeLessThan(7);
    const { status } = await rollout({ resume: "drained", cwd: root, variables: {} });
    expect(status).toBe("done");
    const ids = linesOf("drained")
      .slice(1)
      .map((line) => (JSON.parse(line) as { id: string }).id);
    expect(ids.toSorted()).toEqual([...new Set(ids)].toSorted());
    expect(ids).toHaveLength(6);
  });

  test("a teacher that fails is a notice, and the run is whole", async () => {
    // This server samples only: a request for scores is answered with 400.
    const front = createSglangFront({ sampler: createFunctionSampler(() => ({ ids: [70] })) });
    const listener = await front.listen();
    const notices: string[] = [];
    const result = await rollout({
      ...settings,
      teacher: "sglang",
      teacherUrl: listener.url,
      out: "failing",
      onEvent: (event) => {
        if (event.type === "notice") notices.push(event.message);
      },
    });
    expect(result).toMatchObject({ status: "done", totals: { episodesFinished: 6, outcomes: { failed: 0 } } });
    expect(notices.join("\n")).toContain("The teacher stopped: Cannot score tokens with");
    expect(notices.join("\n")).toContain('score the rest with "score --run failing"');
    await listener.close();
  });

  test("settings without effect, engines without scores and agents without tokens are refused before a folder exists", async () => {
    const cases = [
      [{ teacherModel: "bookshop-nano" }, "Cannot use --teacher-model without --teacher"],
      [{ topTokens: 3 }, "Cannot use --top-tokens without --teacher"],
      [{ teacher: "expert" }, 'Cannot score with engine "expert"'],
      [{ teacher: "nobody" }, 'Cannot score with engine "nobody"'],
      [{ teacher: "embedded", teacherModel: "nowhere" }, "nowhere"],
    ] as const;
    for (const [given, message] of cases) {
      await expect(rollout({ ...settings, ...given, out: "refused" })).rejects.toThrow(message);
      expect(() => readFileSync(join(root, "refused", "run.json"))).toThrow("ENOENT");
    }
  });
});
