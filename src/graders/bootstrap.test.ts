import { describe, expect, it } from "vitest";
import { createRandom } from "../lib/random.ts";
import { bootstrapMean } from "./index.ts";

describe("bootstrapMean()", () => {
  it("gives the same interval for the same seed, and another for another", () => {
    const values = Array.from({ length: 30 }, (_, at) => (at % 7) / 6);
    expect(bootstrapMean(values, { seed: 4 })).toEqual(bootstrapMean(values, { seed: 4 }));
    expect(bootstrapMean(values, { seed: 4 })).not.toEqual(bootstrapMean(values, { seed: 5 }));
  });

  it("covers the true mean about as often as it says", () => {
    const random = createRandom(11);
    let covered = 0;
    for (let run = 0; run < 200; run++) {
      const values = Array.from({ length: 40 }, () => (random.next() < 0.3 ? 1 : 0));
      const { low, high } = bootstrapMean(values, { seed: run, resamples: 400 })!;
      if (low <= 0.3 && 0.3 <= high) covered++;
    }
    expect(covered).toBeGreaterThan(175);
    expect(covered).toBeLessThan(200);
  });

  it("is a point for equal values and unknown for a single task", () => {
    expect(bootstrapMean([0.5, 0.5, 0.5])).toEqual({ low: 0.5, high: 0.5 });
    expect(bootstrapMean([1])).toBeNull();
  });

  it("refuses levels and counts that mean nothing", () => {
    expect(() => bootstrapMean([0, 1], { level: 1 })).toThrow("level is 1");
    expect(() => bootstrapMean([0, 1], { resamples: 0 })).toThrow("resamples is 0");
  });
});
