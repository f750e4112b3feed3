// `compare` from its users' side: run folders, results.json, wrong arguments.

import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Comparison } from "../statistics/index.ts";
import { createTestCli } from "./cli.test-helper.ts";

describe("compare", () => {
  it("compares run folders and results.json by content, and prints both ways", async () => {
    const { run, folder } = await createTestCli();
    for (const [out, turns] of [
      ["before", "30"],
      ["after", "2"],
    ] as const) {
      const flags = [
        "--engine",
        "expert",
        "--tasks",
        "0-8",
        "--trials",
        "2",
        "--max-turns",
        turns,
        "--out",
        out,
        "--quiet",
      ];
      expect((await run("eval", ...flags)).code).toBe(0);
    }
    const shown = await run("compare", "before", "after");
    expect([shown.code, shown.stderr]).toEqual([0, ""]);
    // The bookshop determines which tasks the expert solves; with 2 turns, it solves none.
    expect(shown.stdout).toMatch(
      /after against before: worse\. Pass rate 0\.0 % against (\d+\.\d) % over 9 tasks: -\1 points \[-\d+\.\d to -\d+\.\d\] \(p = 0\.0[0-4]\d*\), [3-9] lost, 0 gained\./,
    );
    expect(shown.stdout).toMatch(/task +before +after +change\n +bookshop:train:\d +2 of 2 +0 of 2 +lost\n/);

    const fromFolders = JSON.parse((await run("compare", "before", "after", "--json")).stdout) as Comparison;
    const files = ["before/results.json", "after/results.json"];
    const fromFiles = JSON.parse((await run("compare", ...files, "--json")).stdout) as Comparison;
    const { passRate, lost, byId } = fromFiles.pairs[0]!;
    expect({ passRate, lost, byId }).toEqual({
      passRate: fromFolders.pairs[0]!.passRate,
      lost: fromFolders.pairs[0]!.lost,
      byId: 0,
    });
    expect(fromFolders.rows[0]!.runs[0]!.episodes[0]!.reward).toBe(1);

    // A file without hashes of tasks, as another program may write one.
    const text = await readFile(join(folder, "after/results.json"), "utf8");
    await writeFile(join(folder, "old.json"), text.replaceAll(/"contentHash": "[^"]*",/g, ""));
    expect((await run("compare", "before", "old.json")).stdout).toContain("9 tasks are matched by id");
    expect((await run("compare", "before", "before")).stdout).toContain("no clear difference. Pass rate");
  });

  it("reads what export wrote for other tools: the same rewards of the same tasks", async () => {
    const { run } = await createTestCli();
    await run("rollout", "--engine", "embedded", "--tasks", "0-3", "--group-size", "2", "--out", "a", "--quiet");
    for (const [format, file] of [
      ["slime", "a.jsonl"],
      ["verifiers", "traces.jsonl"],
      ["inspect", "log.json"],
      ["atif", "atif.jsonl"],
    ] as const) {
      expect((await run("export", "a", "--format", format, "--output", file)).code).toBe(0);
      const { pairs } = JSON.parse((await run("compare", "a", file, "--json")).stdout) as Comparison;
      expect(pairs).toMatchObject([
        { tasks: 4, byId: 0, lost: 0, gained: 0, reward: { mean: 0 }, unmatched: { otherOnly: 0 } },
      ]);
      const scored = await run("eval", "--from", file);
      expect([scored.code, scored.stdout]).toEqual([0, expect.stringContaining("8, 8 graded")]);
    }
  });

  it("matches tasks of τ-bench's files by their content, and by their numbers where a file has no content", async () => {
    const { run, folder } = await createTestCli();
    const write = async (
      file: string,
      rows: readonly (readonly [instruction: string, reward: number])[],
      hasTask = true,
    ) =>
      writeFile(
        join(folder, file),
        JSON.stringify(
          rows.map(([instruction, reward], number) => ({
            task_id: number,
            trial: 0,
            reward,
            traj: [{ role: "user", content: "Hi." }],
            info: hasTask ? { task: { user_id: "u", instruction, actions: [], outputs: [] } } : {},
          })),
        ),
      );
    const compare = async (...files: readonly string[]) =>
      (JSON.parse((await run("compare", ...files, "--json")).stdout) as Comparison).pairs[0];
    // The same tasks under other numbers, and one more.
    const after = [["Swap it.", 0], ["Cancel it.", 1], ["Return it.", 1]] as const; // prettier-ignore
    await write("before.json", [["Cancel it.", 1], ["Swap it.", 0]]); // prettier-ignore
    await write("after.json", after);
    expect(await compare("before.json", "after.json")).toMatchObject({
      tasks: 2,
      byId: 0,
      lost: 0,
      gained: 0,
      unmatched: { otherOnly: 1 },
    });
    await write("numbers.json", after, false);
    expect(await compare("before.json", "numbers.json")).toMatchObject({ tasks: 2, byId: 2, lost: 1, gained: 1 });
  });

  it("says what is wrong with its arguments", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "x.json"), "[]");
    const messages = [];
    for (const argv of [["a"], ["a", "b"], ["x.json", "x.json"], ["x.json", "x.json", "--seed", "1.5"]]) {
      const { code, stderr } = await run("compare", ...argv);
      expect(code).toBe(2);
      messages.push(stderr.trim());
    }
    expect(messages).toEqual([
      "Cannot compare runs: one is named; name two or more run folders or result files.",
      'Cannot read "a": there is no such file or folder; correct its path.',
      expect.stringContaining('Cannot read "x.json": it is neither results.json of an evaluation nor'),
      'Cannot use --seed: it is "1.5", expected a whole number.',
    ]);
  });
});
