import { describe, expect, test } from "vitest";

import pc from "picocolors";
import { compare, type TaskOutcome, type TrainingProgress } from "../../learner/index.ts";
import { comparisonTable, terminalChart, trainingBlock } from "./training-display.ts";

const outcomes = (passed: (index: number) => boolean, violations: number): TaskOutcome[] =>
  Array.from({ length: 40 }, (_, index) => ({
    taskId: `t${index}`,
    kind: index % 2 === 0 ? "even" : "odd",
    case: index % 4 === 0 ? "even/four" : null,
    level: 1,
    passed: passed(index) ? 1 : 0,
    ruleViolations: violations,
  }));

describe("comparisonTable()", () => {
  const [none, half, every] = [() => false, (index: number) => index < 20, () => true].map((passed) =>
    outcomes(passed, passed(0) ? 2 : 0),
  );

  test("shows both temperatures in one line of at most 80 columns, and a minus where it fell", () => {
    const lines = comparisonTable(compare(every!, none!), compare(none!, half!));
    expect(lines[0]).toMatch(/pass rate in %, temperature 1 +greedily$/);
    expect(lines[1]).toMatch(/^tasks +n +before -> after +95 % of gain +before -> after +95 % of gain$/);
    expect(lines[2]).toMatch(/^all +40 +100\.0 -> 0\.0 +-100\.0 to -8\d\.\d +0\.0 -> 50\.0 +\+\d+\.\d to \+\d+\.\d$/);
    expect(lines.at(-1)).toBe("rules broken in an episode: 2.00 -> 0.00");
    expect(lines.join("\n")).not.toContain("four");
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(78);
  });

  test("has one half where nothing was run greedily", () => {
    expect(comparisonTable(compare(none!, half!), null)[2]).toMatch(/^all +40 +0\.0 -> 50\.0 +\S+ to \S+$/);
  });
});

const data = {
  training: Array.from({ length: 30 }, (_, index) => ({ step: index + 1, rate: 0.2 + index / 100 })),
  evaluations: [
    { step: 0, rate: 0.2 },
    { step: 30, rate: 0.49 },
  ],
  greedy: [],
};

test("terminalChart() shows one smoothed line between labelled axes, and evaluations where they are", () => {
  const lines = terminalChart(data, { width: 47, height: 11 });
  expect(lines).toHaveLength(12);
  expect(lines[0]).toMatch(/^ 50 % ┤ +.*◆$/);
  // Each label at the axis is exactly the rate of its line.
  expect(lines.map((line) => line.slice(0, 5).trim()).filter((label) => label !== "")).toEqual(["50 %", "40 %", "30 %", "20 %", "10 %", "0 %"]); // prettier-ignore
  expect(lines[11]).toMatch(/└─+ step 30$/);
  const plot = lines.slice(0, 11).map((line) => line.slice(7).padEnd(40));
  for (let column = 2; column < 39; column++) {
    // A continuous line: in each column it stays in one row, or moves from one row to another
    // without a gap.
    const rows = plot.flatMap((line, row) => (/[─╭╯╮╰│]/.test(line[column]!) ? [row] : []));
    expect([column, rows.length > 0, (rows.at(-1) ?? 0) - (rows[0] ?? 0) + 1]).toEqual([column, true, rows.length]);
  }
  expect(plot.join("")).not.toMatch(/[╮╰]/);
  expect(terminalChart({ training: [], evaluations: [], greedy: [] }, { width: 40, height: 3 })).toHaveLength(4);
});

test("terminalChart() smooths noise, and a single step is a line, too", () => {
  const noisy = Array.from({ length: 200 }, (_, index) => ({ step: index + 1, rate: index % 2 === 0 ? 0.2 : 0.6 }));
  const plot = terminalChart({ training: noisy, evaluations: [], greedy: [] }, { width: 87, height: 7 });
  const used = plot.slice(0, 7).filter((line) => /[─╭╯╮╰]/.test(line.slice(7)));
  expect(used.length).toBeLessThanOrEqual(2);
  const single = terminalChart(
    { training: [{ step: 1, rate: 0.5 }], evaluations: [], greedy: [] },
    { width: 40, height: 5 },
  );
  expect(single.join("")).toMatch(/[─]/);
});

test("trainingBlock() fits the terminal and breaks no word in two", () => {
  const metrics = { step: 12, pass_rate: 0.4, groups: 16, live_groups: 9, loss: 0.01, entropy: 0.5, gradient_norm: 1, logprob_difference_mean: 1e-6, logprob_difference_largest: 1e-4, held_out_pass_rate: 0.41 }; // prettier-ignore
  const progress = { curve: data, metrics, activity: "rolling out", elapsedMs: 60_000, budgetMs: 720_000 } as unknown as TrainingProgress; // prettier-ignore
  const words = new Set(trainingBlock(progress, pc.createColors(false), 200).split(/\s+/));
  for (const columns of [40, 60, 80, 120]) {
    const block = trainingBlock(progress, pc.createColors(false), columns).split("\n");
    expect(Math.max(...block.map((line) => line.length))).toBeLessThan(columns);
    const text = block.slice(12).join(" ").split(/\s+/);
    expect(text.filter((word) => !words.has(word))).toEqual([]);
  }
});
