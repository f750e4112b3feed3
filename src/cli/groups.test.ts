// The flags that control groups, from their users' side.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { rollout } from "../api/rollout.ts";
import { defineEnvironment } from "../environments/index.ts";
import { scriptedUsers } from "../users/index.ts";
import { createTestCli } from "./cli.test-helper.ts";
import { runNotes } from "./display/run-table.ts";
import { resolveSettings } from "../api/resolve-settings.ts";
import { concurrencyBounds } from "../api/rollout-settings.ts";

type Line = Readonly<Record<string, unknown>>;

async function lines(folder: string, file: string): Promise<Line[]> {
  const text = await readFile(join(folder, file), "utf8");
  return text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

describe("rollout with groups", () => {
  it("keeps as many as are wanted, says why others were dropped, and writes the rows of kept ones alone", async () => {
    const { run, folder } = await createTestCli();
    const flags = [
      "--groups",
      "3",
      "--filter",
      "zero-signal",
      "--group-size",
      "4",
      "--tasks",
      "0-3",
      "--write-samples",
    ];
    const { code, stdout, stderr } = await run("rollout", ...flags, "--out", "a");
    expect([code, stderr]).toEqual([0, expect.not.stringContaining("Warning")]);
    const groups = await lines(join(folder, "a"), "groups.jsonl");
    const kept = groups.filter(({ decision }) => decision === "kept");
    expect(kept).toHaveLength(3);
    expect(stdout).toContain(`${groups.length} run`);
    expect(stdout).toContain("kept 3 of 3 requested");
    for (const { rewards } of kept) expect(new Set(rewards as number[]).size).toBe(2);
    const rows = await lines(join(folder, "a"), "samples.jsonl");
    expect(new Set(rows.map(({ group_index: index }) => index))).toEqual(
      new Set(kept.map(({ groupIndex }) => groupIndex)),
    );

    // The same seed keeps the same groups at any concurrency; and the known pass rates make a
    // curriculum.
    await run("rollout", ...flags, "--concurrency", "2", "--out", "b");
    expect((await lines(join(folder, "b"), "samples.jsonl")).map((row) => JSON.stringify(row)).toSorted()).toEqual(
      rows.map((row) => JSON.stringify(row)).toSorted(),
    );
    const drawn = await run("rollout", ...flags, "--curriculum", "a", "--concurrency", "2-8", "--out", "c");
    expect([drawn.code, drawn.stdout]).toEqual([0, expect.stringContaining("kept 3 of 3 requested")]);
  });

  it("leaves tasks that cannot be graded, and names them under the table", async () => {
    const { folder } = await createTestCli();
    const world = defineEnvironment({
      name: "w",
      guidelines: "",
      tools: { wait: { description: "Waits.", parameters: { type: "object" }, run: () => "" } },
      tasks: { train: [0, 1, 2, 3].map((number) => ({ instruction: `Wait. ${number}`, state: { number } })) },
      grade: ({ state }) => {
        if (state.number === 2) throw new Error("the database is gone");
        return 1;
      },
    });
    const action = { text: "Bye.", content: "Bye.", reasoning: null, toolCalls: [], problems: [], isTerminated: true };
    const usage = { modelCalls: 1, inputTokens: 1, outputTokens: 1, cost: 0 };
    const { totals } = await rollout({
      env: world,
      agentModel: { name: "bye", reply: async () => ({ action, usage, attempts: [] }) },
      user: scriptedUsers(["Wait.", "###STOP###"]),
      cwd: folder,
      out: "a",
      split: "train",
      groupSize: 2,
      groups: 60,
      maxGroups: 400,
      curriculum: "on",
    });
    const groups = await lines(join(folder, "a"), "groups.jsonl");
    const fruitless = groups.filter((group) => group.reason === "not-graded");
    expect(totals.ungradedTasks).toEqual({ "w:train:2": fruitless.length });
    expect(fruitless.length).toBeGreaterThan(0);
    expect(fruitless.length).toBeLessThan(groups.length / 4);
    expect(runNotes(totals)[0]).toContain(`1 task was never graded: w:train:2 (${fruitless.length} group`);
    // If nothing was graded, the failures tell the reason.
    expect(runNotes({ ...totals, graded: 0 }).join()).not.toContain("never graded");
  });

  it("drops groups by a filter of the user's own, and names a module that is none", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(
      join(folder, "odd.mjs"),
      'export default ({ groupIndex }) => (groupIndex % 2 === 1 ? "odd" : null);\n',
    );
    await writeFile(join(folder, "wrong.mjs"), "export default 5;\n");
    await writeFile(join(folder, "vague.mjs"), "export default () => true;\n");
    const flags = ["--tasks", "0-3", "--out"];
    const { stdout } = await run("rollout", "--filter", "./odd.mjs", ...flags, "a");
    expect(stdout).toContain("kept 2; dropped 2 (odd 2)");
    const wrong = await run("rollout", "--filter", "./wrong.mjs", ...flags, "b");
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining("its default export is not a function")]);
    const vague = await run("rollout", "--filter", "./vague.mjs", ...flags, "c");
    expect([vague.code, vague.stderr]).toEqual([2, expect.stringContaining("it returned true, expected the reason")]);
  });

  it.each([
    [["--oversample", "2"], "pass --groups <n>"],
    [["--curriculum", "on"], "pass --groups <n>"],
    [["--filter", "zero"], "there are zero-signal and reward-range:<min>-<max>"],
    [["--filter", "zero-signal"], "a group of one episode has nothing to compare"],
    [["--min-group", "3", "--group-size", "2"], "lower --min-group or raise --group-size"],
    [["--groups", "10", "--max-groups", "3"], "raise --max-groups or lower --groups"],
    [["--filter", "./none.ts"], 'Cannot load filter "./none.ts"'],
    [["--groups", "1", "--curriculum", "nowhere"], "there is no such folder"],
  ])("refuses %s before anything is played", async (flags, words) => {
    const { run } = await createTestCli();
    const { code, stderr } = await run("rollout", ...flags, "--out", "a");
    expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
  });
});

describe("eval", () => {
  it("has no flag for groups and no ear for those of a configuration file: it counts every episode", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "train.yaml"), "filter: zero-signal\ngroups: 1\ncurriculum: on\n");
    const { code, stdout } = await run(
      "eval",
      "--tasks",
      "0-1",
      "--trials",
      "2",
      "--config",
      "train.yaml",
      "--out",
      "a",
    );
    expect([code, stdout]).toEqual([0, expect.stringContaining("pass^")]);
    const groups = await lines(join(folder, "a"), "groups.jsonl");
    expect(groups.map(({ decision }) => decision)).toEqual(["kept", "kept"]);
    expect((await run("eval", "--filter", "zero-signal")).code).toBe(2);
  });
});

describe("--concurrency", () => {
  it("is a number, bounds or auto", () => {
    const boundsOf = (value: unknown) => concurrencyBounds(resolveSettings({ concurrency: value }, null).concurrency);
    expect(boundsOf("7")).toEqual({ floor: 7, ceiling: 7 });
    expect(boundsOf("16-256")).toEqual({ floor: 16, ceiling: 256 });
    expect(boundsOf("auto")).toEqual({ floor: 4, ceiling: 1024 });
    for (const wrong of ["0", "9-3", "a lot", "1.5", "200000", "-4"])
      expect(() => boundsOf(wrong)).toThrow("two with a dash");
  });
});
