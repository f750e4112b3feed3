// `score`: flags, output and exit codes. What it writes: src/api/score-run.test.ts.

import { describe, expect, it } from "vitest";

import { createTestCli } from "./cli.test-helper.ts";

describe("score", () => {
  it("finds no distance between a policy and itself, scores each episode once, and refuses what it cannot do", async () => {
    const { run } = await createTestCli();
    const flags = ["--tasks", "0", "--group-size", "1", "--max-turns", "1", "--out", "a", "--quiet"];
    expect((await run("rollout", "--engine", "embedded", "--model", "bookshop-nano", ...flags)).code).toBe(0);
    const score = ["score", "--run", "a", "--teacher", "embedded", "--model", "bookshop-nano"];
    const first = await run(...score, "--top-tokens", "2", "--json");
    expect(first.code).toBe(0);
    const result = JSON.parse(first.stdout) as { readonly tokens: number; readonly reverseKl: number };
    expect(result).toMatchObject({ episodes: 1, scored: 1, known: 0, end: "done" });
    expect(result.tokens).toBeGreaterThan(0);
    expect(Math.abs(result.reverseKl)).toBeLessThan(1e-4);
    const again = await run(...score, "--top-tokens", "2");
    expect(again.code).toBe(0);
    expect(again.stdout).toContain("0 episodes scored (1 were scored before)");
    for (const [more, reason] of [
      [[], "a teacher with topTokens 2"],
      [["--top-tokens", "257"], "expected a whole number from 0 to 256"],
      [["--run", "none"], "there is no such folder"],
      [["--gguf", "a.gguf"], "Cannot use --gguf with engine"],
    ] as const) {
      const { code, stderr } = await run(...score, ...more);
      expect([code, stderr]).toEqual([2, expect.stringContaining(reason)]);
    }
  }, 180_000);
});
