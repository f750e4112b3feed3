import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { groupAdvantages, hasZeroVariance } from "./group-advantages.ts";

describe("groupAdvantages()", () => {
  test("compares within a group, in units of its standard deviation", () => {
    const [first, second] = groupAdvantages([[1, 0, 0, 0], [1, 1, 1, 1]], { baseline: "group", normalize: true }); // prettier-ignore
    const deviation = Math.sqrt(3) / 4;
    expect(first![0]).toBeCloseTo(0.75 / deviation, 3);
    expect(first![1]).toBeCloseTo(-0.25 / deviation, 3);
    expect(second).toEqual([0, 0, 0, 0]);
  });

  test("without normalisation an advantage is the distance to the mean", () => {
    expect(groupAdvantages([[1, 0, 0, 0]], { baseline: "group", normalize: false })).toEqual([
      [0.75, -0.25, -0.25, -0.25],
    ]);
  });

  test("compares with all of the step where the baseline is the batch", () => {
    expect(groupAdvantages([[1, 1], [0, 0]], { baseline: "batch", normalize: false })).toEqual([[0.5, 0.5], [-0.5, -0.5]]); // prettier-ignore
  });

  test("sums to 0 in every group, and keeps the order of rewards", () => {
    const rewards = fc.array(fc.double({ min: -5, max: 5, noNaN: true }), { minLength: 1, maxLength: 10 });
    fc.assert(
      fc.property(rewards, fc.boolean(), (group, normalize) => {
        const [advantages] = groupAdvantages([group], { baseline: "group", normalize });
        expect(advantages!.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 6);
        const best = group.indexOf(Math.max(...group));
        expect(advantages![best]).toBe(Math.max(...advantages!));
      }),
      { seed: 1 },
    );
  });

  test("a group of one, or of equals, teaches nothing", () => {
    expect([[], [1], [0, 0], [0.5, 0.5]].map(hasZeroVariance)).toEqual([true, true, true, true]);
    expect(hasZeroVariance([0, 1])).toBe(false);
  });
});
