import fc from "fast-check";
import { describe, expect, it, test } from "vitest";

import { createRandom, type Random } from "../lib/random.ts";
import {
  commonTrials,
  differenceInterval,
  isSuccess,
  meanInterval,
  passAtK,
  passHatK,
  rateInterval,
  type TaskTally,
} from "./rates.ts";

const passes = (passed: number, tasks: number): number[] => Array.from({ length: tasks }, (_, at) => +(at < passed));

describe("rateInterval()", () => {
  // scipy 1.17 through statsmodels' proportion_confint(method="beta").
  test.each([
    [8, 8, 0.6305833524471807, 1],
    [7, 8, 0.47349032912479344, 0.9968402764687481],
    [0, 5, 0, 0.5218237501049815],
    [3, 10, 0.06673951117773447, 0.6524528500599973],
    [497, 1000, 0.4655585837710773, 0.5284591249803341],
  ])("%i of %i tasks passed: exact, as scipy has it", (passed, tasks, low, high) => {
    const interval = rateInterval(passes(passed, tasks))!;
    expect(interval.low).toBeCloseTo(low, 10);
    expect(interval.high).toBeCloseTo(high, 10);
  });

  it("has a width where all tasks agree, and none is known from one task", () => {
    expect(rateInterval(passes(8, 8))!.low).toBeLessThan(0.7);
    expect(rateInterval([0.5, 0.5, 0.5])!.low).toBeLessThan(0.35);
    expect(rateInterval([1])).toBeNull();
    expect(rateInterval([])).toBeNull();
  });

  it("is narrower where several trials of many tasks are known", () => {
    const alike = Array.from({ length: 40 }, (_, at) => (at % 2 === 0 ? 0.25 : 0.75));
    const [shares, successes] = [rateInterval(alike)!, rateInterval(passes(20, 40))!];
    expect(shares.high - shares.low).toBeLessThan(0.7 * (successes.high - successes.low));
    expect((shares.high + shares.low) / 2).toBeCloseTo(0.5);
  });

  it("refuses what is not a rate, and levels that mean nothing", () => {
    expect(() => rateInterval([0, 1.5])).toThrow("a value is not between 0 and 1");
    expect(() => rateInterval([0, 1], { level: 1 })).toThrow("level is 1");
  });
});

describe("coverage, simulated", () => {
  const runs = 400;

  /** Number of successes among the trials of a task whose own rate varies around `rate`. */
  function drawTask(random: Random, rate: number, { trials, spread }: { trials: number; spread: number }): number {
    const own = random.next() < spread ? +(random.next() < rate) : rate;
    let passed = 0;
    for (let trial = 0; trial < trials; trial++) passed += +(random.next() < own);
    return passed / trials;
  }

  const settings = [2, 8, 50].flatMap((tasks) =>
    [0.5, 0.9, 0.98].flatMap((rate) =>
      [
        { trials: 1, spread: 0 },
        { trials: 4, spread: 0 },
        { trials: 4, spread: 0.5 },
        { trials: 8, spread: 1 },
      ].map((kind) => ({ tasks, rate, ...kind })),
    ),
  );

  test.each(settings)("$tasks tasks, rate $rate, $trials trials, spread $spread", ({ tasks, rate, trials, spread }) => {
    const random = createRandom(11);
    let covered = 0;
    for (let run = 0; run < runs; run++) {
      const values = Array.from({ length: tasks }, () => drawTask(random, rate, { trials, spread }));
      const { low, high } = rateInterval(values)!;
      if (low <= rate && rate <= high) covered++;
    }
    // The nominal coverage is 95 %; 400 runs estimate such a share to within 2 points.
    expect(covered / runs).toBeGreaterThan(0.925);
  });

  test.each([
    [8, 0.9, 0.9],
    [40, 0.35, 0.65],
    [20, 0.98, 1],
  ])("of the difference between two evaluations of the same %i tasks, %f and %f", (tasks, before, after) => {
    const random = createRandom(5);
    let covered = 0;
    for (let run = 0; run < runs; run++) {
      const gains = Array.from({ length: tasks }, () => +(random.next() < after) - +(random.next() < before));
      const { low, high } = differenceInterval(gains)!;
      if (low <= after - before && after - before <= high) covered++;
    }
    expect(covered / runs).toBeGreaterThan(0.925);
  });

  test("of a mean of rewards of any size", () => {
    const random = createRandom(3);
    let covered = 0;
    for (let run = 0; run < runs; run++) {
      const values = Array.from({ length: 10 }, () => 3 + random.next() + random.next() + random.next());
      const { low, high } = meanInterval(values)!;
      if (low <= 4.5 && 4.5 <= high) covered++;
    }
    expect(covered / runs).toBeGreaterThan(0.925);
    expect(covered / runs).toBeLessThan(0.98);
  });
});

test("meanInterval() is that of a rate between 0 and 1, Student's elsewhere, unknown without a spread", () => {
  expect(meanInterval([1, 1, 0])).toEqual(rateInterval([1, 1, 0]));
  // scipy.stats.t.interval(0.95, 4, loc=3, scale=sem([1, 2, 3, 4, 5]))
  const { low, high } = meanInterval([1, 2, 3, 4, 5])!;
  expect(low).toBeCloseTo(1.0367568385224393, 8);
  expect(high).toBeCloseTo(4.963243161477561, 8);
  expect(meanInterval([2, 2])).toBeNull();
  expect(meanInterval([-3])).toBeNull();
});

test("differenceInterval() of tasks that did not change is not a point, and stays between -1 and 1", () => {
  const { low, high } = differenceInterval(Array(10).fill(0))!;
  expect(low).toBeLessThan(-0.1);
  expect(high).toBeGreaterThan(0.1);
  expect(differenceInterval([1, 1])).toMatchObject({ high: 1 });
  expect(differenceInterval([1])).toBeNull();
});

const tally = (successes: number, trials: number): TaskTally => ({
  taskId: `${successes}/${trials}`,
  trials,
  successes,
});

/** Reference result that enumerates every choice of k trials. */
function byCounting(successes: number, trials: number, k: number): { readonly all: number; readonly any: number } {
  const choices: number[][] = [[]];
  for (let trial = 0; trial < trials; trial++) choices.push(...choices.map((choice) => [...choice, trial]));
  const drawn = choices.filter(({ length }) => length === k);
  const share = (fits: (choice: readonly number[]) => boolean): number => drawn.filter(fits).length / drawn.length;
  return {
    all: share((choice) => choice.every((trial) => trial < successes)),
    any: share((choice) => choice.some((trial) => trial < successes)),
  };
}

describe("passHatK() and passAtK()", () => {
  it("equal the share of all choices of k trials, averaged over tasks", () => {
    const task = fc.integer({ min: 0, max: 6 }).map((successes) => tally(successes, 6));
    fc.assert(
      fc.property(fc.array(task, { minLength: 1, maxLength: 5 }), fc.integer({ min: 1, max: 6 }), (tallies, k) => {
        const counted = tallies.map(({ successes, trials }) => byCounting(successes, trials, k));
        const mean = (pick: (one: (typeof counted)[number]) => number): number =>
          counted.reduce((sum, one) => sum + pick(one), 0) / counted.length;
        expect(passHatK(tallies, k)).toBeCloseTo(
          mean(({ all }) => all),
          12,
        );
        expect(passAtK(tallies, k)).toBeCloseTo(
          mean(({ any }) => any),
          12,
        );
      }),
    );
  });

  it("are unknown where a task has fewer than k trials, and without tasks", () => {
    expect(passHatK([tally(1, 4), tally(1, 1)], 2)).toBeNull();
    expect(passAtK([], 1)).toBeNull();
    expect(commonTrials([tally(1, 4), tally(1, 3)])).toBe(3);
    expect(commonTrials([])).toBe(0);
  });

  it("stay numbers with thousands of trials", () => {
    expect(passHatK([tally(5_000, 10_000)], 2_000)).toBeGreaterThanOrEqual(0);
    expect(passAtK([tally(5_000, 10_000)], 2_000)).toBeCloseTo(1);
  });

  it("refuse a k that is not a number of trials", () => {
    expect(() => passHatK([tally(1, 2)], 0)).toThrow(RangeError);
    expect(() => passAtK([tally(1, 2)], 1.5)).toThrow(RangeError);
  });
});

describe("isSuccess()", () => {
  it("is a reward of 1 within a millionth", () => {
    expect([1, 1 + 9e-7, 1 - 9e-7].map(isSuccess)).toEqual([true, true, true]);
    expect([0, 0.99999, 1.00001, 2].map(isSuccess)).toEqual([false, false, false, false]);
  });
});
