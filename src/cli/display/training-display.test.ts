import { describe, expect, test } from "vitest";

import { compare, type TaskOutcome } from "../../learner/index.ts";
import { caseTable, comparisonTable, terminalChart } from "./training-display.ts";

const outcomes = (passed: (index: number) => boolean, violations: number): TaskOutcome[] =>
  Array.from({ length: 40 }, (_, index) => ({
    taskId: `t${index}`,
    kind: index % 2 === 0 ? "even" : "odd",
    ...{ case: index % 4 === 0 ? "even/four" : null, level: 1 },
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
    expect(lines.join("\n")).not.toContain("four");
  });
});

test("caseTable() shows each case sampled and greedily, and nothing where there are no cases", () => {
  const [none, some, every] = [() => false, (index: number) => index < 20, () => true].map((passed) =>
    outcomes(passed, 0),
  );
  const [head, line, ...rest] = caseTable(compare(none!, some!), compare(none!, every!));
  expect(head).toMatch(/case +n +sampled +95 % of the gain +greedily +95 % of the gain/);
  expect(line).toMatch(/even\/four +10 +0\.0 -> 50\.0 .* 0\.0 -> 100\.0/);
  expect(rest).toEqual([]);
  expect(caseTable(compare(none!, some!), null)[1]).toMatch(/even\/four .* – +–$/);
  const plain = none!.map((one) => ({ ...one, case: null }));
  expect(caseTable(compare(plain, plain), null)).toEqual([]);
});

const data = {
  training: Array.from({ length: 30 }, (_, index) => ({ step: index + 1, rate: 0.2 + index / 100 })),
  evaluations: [
    { step: 0, rate: 0.2 },
    { step: 30, rate: 0.49 },
  ],
  greedy: [],
};

test("terminalChart() shows a rising curve between labelled axes", () => {
  const lines = terminalChart(data, { width: 47, height: 5 });
  expect(lines).toHaveLength(6);
  expect(lines[0]).toMatch(/^ 50 % ┤ +.*◆$/);
  expect(lines[4]).toMatch(/^  0 % ┤/);
  expect(lines[5]).toMatch(/└─+ step 30$/);
  const columnOf = (line: string): number => line.search(/[•◆]/);
  expect(columnOf(lines[1]!)).toBeLessThan(columnOf(lines[0]!));
  expect(terminalChart({ training: [], evaluations: [], greedy: [] }, { width: 40, height: 3 })).toHaveLength(4);
});
