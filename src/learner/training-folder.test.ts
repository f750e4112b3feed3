import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

import { compare, fallenCases, type TaskOutcome } from "./comparison.ts";
import { appendMetrics, readMetrics, writeMetrics, passRatePlot } from "./training-folder.ts";

const folder = await mkdtemp(join(tmpdir(), "metrics-"));
afterAll(() => rm(folder, { recursive: true }));

const outcomes = (passed: (index: number) => boolean, violations: number): TaskOutcome[] =>
  Array.from({ length: 40 }, (_, index) => ({
    taskId: `t${index}`,
    kind: index % 2 === 0 ? "even" : "odd",
    case: index % 4 === 0 ? "even/four" : null,
    level: 1,
    passed: passed(index) ? 1 : 0,
    ruleViolations: violations,
  }));

describe("compare()", () => {
  test("gives rates, gains and violations of all tasks and of each kind", () => {
    const before = outcomes((index) => index < 10, 1);
    const after = outcomes((index) => index < 10 || index % 2 === 0, 0.5);
    const [all, even, odd, four] = compare(before, after);
    expect([all, even, odd, four].map((row) => row?.scope)).toEqual(["all", "kind", "kind", "case"]);
    expect(four).toMatchObject({ kind: "even/four", tasks: 10, before: 0.3, after: 1 });
    expect(all).toMatchObject({ kind: "all", tasks: 40, before: 0.25, violationsBefore: 1, violationsAfter: 0.5 });
    expect(all!.gain).toBeCloseTo(0.375);
    expect(even).toMatchObject({ kind: "even", tasks: 20, before: 0.25, after: 1, gain: 0.75 });
    expect(odd).toMatchObject({ kind: "odd", gain: 0 });
    // Even if none of 20 tasks changed, the interval must allow for changes.
    expect(odd!.gainInterval!.high).toBeGreaterThan(0.1);
    expect(all!.gainInterval!.low).toBeGreaterThan(0.19);
    expect(all!.gainInterval!.high).toBeLessThan(0.55);
  });
});

describe("fallenCases()", () => {
  const fives = (passed: readonly (0 | 1)[], level = 1): TaskOutcome[] =>
    passed.map((one, index) => ({
      taskId: `t${index}`,
      kind: "top_up",
      case: "top_up/plain",
      level,
      passed: one,
      ruleViolations: null,
    }));

  test("names a plain case of which five tasks were lost, and not one that lost four, or lost and won", () => {
    const all = fives([1, 1, 1, 1, 1, 0]);
    expect(fallenCases(all, fives([0, 0, 0, 0, 0, 0]))).toMatchObject([{ kind: "top_up/plain", after: 0, tasks: 6 }]);
    expect(fallenCases(all, fives([0, 0, 0, 0, 1, 0]))).toEqual([]);
    expect(fallenCases(all, fives([0, 0, 0, 0, 0, 1]))).toEqual([]);
    expect(fallenCases(fives([0, 0, 0, 0, 0]), fives([1, 1, 1, 1, 1]))).toEqual([]);
  });

  test("is about the plainest level alone, and about tasks that were run again", () => {
    expect(fallenCases(fives([1, 1, 1, 1, 1], 2), fives([0, 0, 0, 0, 0], 2))).toEqual([]);
    expect(fallenCases(fives([1, 1, 1, 1, 1, 1]), fives([0, 0, 0, 0]))).toEqual([]);
  });
});

describe("metrics.csv", () => {
  test("gives back what was written, absent values as absent", async () => {
    const path = join(folder, "metrics.csv");
    const rows = [
      { step: 1, loss: 0.1 + 0.2, held: null },
      { step: 2, loss: -3e-9, held: 0.25 },
    ];
    await appendMetrics(path, rows[0]!, true);
    await appendMetrics(path, rows[1]!, false);
    expect(await readMetrics(path)).toEqual(rows);
    await writeMetrics(path, rows.slice(0, 1));
    expect(await readMetrics(path)).toEqual(rows.slice(0, 1));
    await appendMetrics(path, { step: 3, loss: 1 }, false);
    await expect(readMetrics(path)).rejects.toThrow("at line 3: it does not fit the header");
  });
});

const data = {
  training: Array.from({ length: 30 }, (_, index) => ({ step: index + 1, rate: 0.2 + index / 100 })),
  evaluations: [
    { step: 0, rate: 0.2 },
    { step: 30, rate: 0.49 },
  ],
  greedy: [{ step: 30, rate: 0.7 }],
};

test("passRatePlot() draws every point, and escapes its title", () => {
  const svg = passRatePlot(data, "a < b & c");
  expect(svg).toContain("a &lt; b &amp; c");
  expect(svg.match(/<circle/g)).toHaveLength(33);
  expect(svg).not.toMatch(/NaN|Infinity|undefined/);
});
