import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { commonTrials, isSuccess, passAtK, passHatK, type TaskTally } from "./index.ts";

const tally = (successes: number, trials: number): TaskTally => ({
  taskId: `${successes}/${trials}`,
  trials,
  successes,
});

/** By listing every choice of k trials. */
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

  it("refuse a k that is no number of trials", () => {
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
