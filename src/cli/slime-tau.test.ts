import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createTestCli } from "./cli.test-helper.ts";

const rollout = ["rollout", "--preset", "slime-tau", "--tasks", "0-3", "--expert-noise", "0", "--out", "run"];

describe("rollout --preset slime-tau", () => {
  it("plays the seed's loop: its sampling, its token accounting, rows that say so", async () => {
    const { run, folder } = await createTestCli();
    const { code, stdout } = await run(...rollout);
    expect(code).toBe(0);
    expect(stdout).toContain("100.0 % (4 of 4 graded)");
    const rows = (await readFile(join(folder, "run/samples.jsonl"), "utf8")).trim().split("\n");
    expect(rows).toHaveLength(4);
    for (const row of rows) {
      const { metadata, rollout_log_probs, loss_mask, response_length } = JSON.parse(row) as {
        metadata: { token_accounting: string };
        rollout_log_probs: null;
        loss_mask: number[];
        response_length: number;
      };
      expect(metadata.token_accounting).toBe("text-delta");
      expect(rollout_log_probs).toBeNull();
      expect(loss_mask).toHaveLength(response_length);
    }
    const settings = await readFile(join(folder, "run/run.json"), "utf8");
    expect(settings).toMatch(/"temperature": ?0/);
    expect(settings).toMatch(/"max-new-tokens": ?512/);
    const shown = await run("inspect", "run", "1");
    expect(shown.stdout).toContain("assistant: ");
  });

  it("puts the instruction of a file in place, to the last newline, and refuses a file that is not there", async () => {
    const { run, folder } = await createTestCli();
    await writeFile(join(folder, "instruction.txt"), " One call per turn.\n");
    expect((await run(...rollout, "--tool-instruction", "instruction.txt")).code).toBe(0);
    const row = (await readFile(join(folder, "run/samples.jsonl"), "utf8")).split("\n")[0] ?? "{}";
    expect((JSON.parse(row) as { prompt: string }).prompt).toContain("# Tools\n\n One call per turn.\n\n\nThe tools:");
    const missing = await run(...rollout, "--tool-instruction", "nowhere.txt");
    expect(missing.code).toBe(2);
    expect(missing.stderr).toContain("correct --tool-instruction");
  });
});
