import { describe, expect, test } from "vitest";

import { CollapseWatch } from "./collapse-watch.ts";

const healthy = { passRate: 0.3, entropy: 0.1, commonestBehaviour: 0.2 };

describe("CollapseWatch", () => {
  test("stops when the policy does the same whatever it is asked, three steps in a row", () => {
    const watch = new CollapseWatch();
    const same = { ...healthy, commonestBehaviour: 0.9 };
    expect([watch.step(same), watch.step(same), watch.step(healthy), watch.step(same), watch.step(same)]).toEqual(
      Array.from({ length: 5 }, () => null),
    );
    expect(watch.step(same)).toContain("a single behaviour");
  });

  test("stops when there is no choice left", () => {
    const watch = new CollapseWatch();
    expect(watch.step(healthy)).toBeNull();
    expect(watch.step({ ...healthy, entropy: 0.006 })).toBeNull();
    expect(watch.step({ ...healthy, entropy: 0.004 })).toContain(
      "entropy of the policy is 4.0e-3, 4.0 % of what it was",
    );
  });

  test("lets a policy that solves its tasks be sure and predictable", () => {
    const watch = new CollapseWatch();
    watch.step(healthy);
    for (let step = 0; step < 5; step++) {
      expect(watch.step({ passRate: 0.9, entropy: 0.001, commonestBehaviour: 0.95 })).toBeNull();
    }
  });

  test("stops after evaluations that fall again and again, and far enough", () => {
    const watch = new CollapseWatch();
    expect([0.3, 0.4, 0.36, 0.33].map((rate) => watch.evaluation(rate))).toEqual([null, null, null, null]);
    expect(watch.evaluation(0.28)).toContain("fell 3 times in a row, from 40.0 % to 28.0 %");
    const slow = new CollapseWatch();
    expect([0.4, 0.39, 0.38, 0.37].map((rate) => slow.evaluation(rate))).toEqual([null, null, null, null]);
  });

  test("steps without an update tell nothing about entropy", () => {
    const watch = new CollapseWatch();
    expect(watch.step({ ...healthy, entropy: null })).toBeNull();
    expect(watch.step(healthy)).toBeNull();
  });
});
