// Agreement of two raters: kappa as scikit-learn computes it, and intervals that contain it.

import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { ratingAgreement, rateInterval } from "./index.ts";

type Case = {
  readonly tasks: readonly string[];
  readonly first: readonly string[];
  readonly second: readonly string[];
  readonly kappa: number | null;
};
const lines = readFileSync(new URL("../../tests/goldens/statistics/kappa.jsonl", import.meta.url), "utf8").trim();
const cases = lines.split("\n").map((line) => JSON.parse(line) as Case);

const ratingsOf = ({ tasks, first, second }: Pick<Case, "tasks" | "first" | "second">) =>
  tasks.map((taskId, at) => ({ taskId, first: first[at]!, second: second[at]! }));

describe("the agreement of two raters", () => {
  it("has the kappa of scikit-learn, with every task counted once", () => {
    expect(cases.length).toBeGreaterThan(20);
    for (const one of cases) {
      const found = ratingAgreement(ratingsOf(one))!;
      if (one.kappa === null) expect(found.kappa).toBeNull();
      else expect(found.kappa).toBeCloseTo(one.kappa, 10);
      const { kappa, kappaInterval, share, interval } = found;
      if (interval !== null) expect(interval.low <= share && share <= interval.high).toBe(true);
      if (kappaInterval !== null) expect(kappaInterval.low <= kappa! && kappa! <= kappaInterval.high).toBe(true);
    }
  });

  it("is as uncertain as the rate of agreement, also where it is complete", () => {
    const same = ["a", "b", "a", "b", "a"];
    const { share, interval, kappa, kappaInterval } = ratingAgreement(
      ratingsOf({ tasks: ["1", "2", "3", "4", "5"], first: same, second: same }),
    )!;
    expect([share, kappa]).toEqual([1, 1]);
    expect(interval).toEqual(rateInterval([1, 1, 1, 1, 1]));
    expect(kappaInterval!.low).toBeLessThan(0.2);
  });

  it("is unknown where nothing can be said", () => {
    expect(ratingAgreement([])).toBeNull();
    const one = { taskId: "1", first: "a", second: "a" };
    expect(ratingAgreement([one, one])).toMatchObject({ tasks: 1, interval: null, kappa: null, kappaInterval: null });
    expect(ratingAgreement([one, { ...one, taskId: "2" }])).toMatchObject({ kappa: null, kappaInterval: null });
  });
});
