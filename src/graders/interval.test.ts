import { describe, expect, it, test } from "vitest";

import { createRandom, type Random } from "../lib/random.ts";
import { differenceInterval, meanInterval, rateInterval } from "./index.ts";

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

  it("refuses what is no rate, and levels that mean nothing", () => {
    expect(() => rateInterval([0, 1.5])).toThrow("a value is not between 0 and 1");
    expect(() => rateInterval([0, 1], { level: 1 })).toThrow("level is 1");
  });
});

describe("coverage, simulated", () => {
  const runs = 400;

  /** Successes of the trials of a task whose own rate varies around `rate`. */
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
    // 95 % are promised; 400 runs know a share of 95 % to within 2 points.
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
