import { describe, expect, test } from "vitest";

import { compare, type TaskOutcome } from "../../learner/index.ts";
import { comparisonTable, terminalChart } from "./training-display.ts";

const outcomes = (passed: (index: number) => boolean, violations: number): TaskOutcome[] =>
  Array.from({ length: 40 }, (_, index) => ({
    taskId: `t${index}`,
    kind: index % 2 === 0 ? "even" : "odd",
    passed: passed(index) ? 1 : 0,
    ruleViolations: violations,
  }));

describe("comparisonTable()", () => {
  test("shows a minus where it fell", () => {
    const lines = comparisonTable(
      compare(
        outcomes(() => true, 0),
        outcomes(() => false, 2),
      ),
    );
    expect(lines[0]).toContain("violations an episode");
    expect(lines[1]).toMatch(/all +40 +100\.0 .* -100\.0 .* 0\.000 -> 2\.000/);
  });
});

const data = {
  training: Array.from({ length: 30 }, (_, index) => ({ step: index + 1, rate: 0.2 + index / 100 })),
  evaluations: [
    { step: 0, rate: 0.2 },
    { step: 30, rate: 0.49 },
  ],
};

test("terminalChart() shows a rising curve between labelled axes", () => {
  const lines = terminalChart(data, { width: 47, height: 5 });
  expect(lines).toHaveLength(6);
  expect(lines[0]).toMatch(/^ 50 % ┤ +.*◆$/);
  expect(lines[4]).toMatch(/^  0 % ┤/);
  expect(lines[5]).toMatch(/└─+ step 30$/);
  const columnOf = (line: string): number => line.search(/[•◆]/);
  expect(columnOf(lines[1]!)).toBeLessThan(columnOf(lines[0]!));
  expect(terminalChart({ training: [], evaluations: [] }, { width: 40, height: 3 })).toHaveLength(4);
});
