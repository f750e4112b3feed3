import { expect, test } from "vitest";
import { compare, type TaskOutcome, trainingVerdict } from "./comparison.ts";

const outcomes = (passed: (index: number) => boolean): TaskOutcome[] =>
  Array.from({ length: 40 }, (_, index) => ({
    taskId: `t${index}`,
    kind: "all",
    case: null,
    level: 1,
    passed: passed(index) ? 1 : 0,
    ruleViolations: null,
  }));
const row = (before: number, after: number) =>
  compare(
    outcomes((index) => index < before),
    outcomes((index) => index < after),
  )[0]!;
const judge = (given: Partial<Parameters<typeof trainingVerdict>[0]>): string =>
  trainingVerdict({ sampled: row(20, 20), greedy: null, steps: 5, taught: true, minutes: 2, ...given });

test("trainingVerdict() says that a rate rose or fell only where the interval excludes 0", () => {
  expect(judge({ greedy: row(20, 32) })).toMatch(
    /^It learnt: the greedy pass rate rose by 30\.0 points in 5 steps, from 50\.0 to 80\.0 % of 40 held-out tasks, 95 % interval \+\d+\.\d to \+\d+\.\d\.$/,
  );
  expect(judge({ greedy: row(32, 20) })).toContain("It got worse: the greedy pass rate fell by 30.0 points");
  expect(judge({ greedy: row(20, 21) })).toMatch(/^Not enough to tell: in 5 steps .* --minutes 6\.$/);
});

test("trainingVerdict() speaks of one rate: a rise at temperature 1 does not stand in for a greedy one", () => {
  expect(judge({ sampled: row(10, 35), greedy: row(20, 20) })).toContain("Not enough to tell");
  expect(judge({ sampled: row(10, 35) })).toContain("the pass rate at temperature 1 rose by 62.5 points");
});

test("trainingVerdict() names what was missing", () => {
  expect(judge({ steps: 0 })).toContain("no step was made in 2 minutes; give it more time, such as --minutes 6");
  expect(judge({ taught: false })).toContain("all episodes of each group earned the same reward");
});
