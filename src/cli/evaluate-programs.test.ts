// Agent programs on the command line: refused settings, and the reader's view of a run whose
// program calls none of our models.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createTestCli } from "./cli.test-helper.ts";

test("a program whose model nobody names is refused with the remedy", async () => {
  const { run } = await createTestCli();
  const program = ["--agent-command", "node agent.mjs"];
  for (const command of [
    ["eval", ...program],
    ["rollout", ...program],
    ["serve", ...program, "--out", "a", "--listen", "127.0.0.1:0"],
    ["gateway", "--out", "a", "--listen", "127.0.0.1:0"],
  ]) {
    const { code, stderr } = await run(...command);
    expect([code, stderr]).toEqual([2, expect.stringContaining("no model is named to answer their calls")]);
    expect(stderr).toMatch(/--agent-url .*--agent-model .*--engine none/);
  }
});

test(
  "inspect shows task, output, end and reward of a program that calls none of our models",
  { timeout: 60_000 },
  async () => {
    const { folder, run } = await createTestCli({ PATH: process.env["PATH"] ?? "" });
    await writeFile(join(folder, "tasks.jsonl"), '{"id": "sum", "question": "2 + 2"}\n');
    const says = `console.log("It is 4.");console.error("\\u001b[2Jthinking");console.log('{"reward": 0.5}')`;
    await writeFile(join(folder, "agent.mjs"), says);
    const command = [`"${process.execPath}"`, "agent.mjs"].join(" ");
    const options = ["--env", "tasks.jsonl", "--engine", "none", "--out", "run"];
    const evaluated = await run("eval", "--agent-command", command, ...options);
    expect([evaluated.code, evaluated.stderr]).toEqual([0, expect.stringContaining("no model of ours")]);
    const { stdout } = await run("inspect", "run", "1");
    expect(stdout).toContain('task: {"id": "sum", "question": "2 + 2"}');
    expect(stdout).toContain('stdout: It is 4.\n  {"reward": 0.5}');
    expect(stdout).toContain("stderr: \\x1b[2Jthinking");
    expect(stdout).toContain("the program ended with code 0, and printed reward 0.5");
    await writeFile(join(folder, "agent.mjs"), 'throw new Error("its world is gone")');
    expect((await run("eval", "--agent-command", command, ...options.slice(0, -1), "broken")).code).toBe(1);
    const broken = await run("inspect", "broken", "1");
    expect(broken.stdout).toContain("Error: its world is gone");
    expect(broken.stdout).toContain("the program ended with code 1, and printed no reward");
  },
);
