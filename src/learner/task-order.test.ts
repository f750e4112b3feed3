import { describe, expect, test } from "vitest";

import { createLiveOrder, createTaskOrder, type LiveShares, liveShares } from "./task-order.ts";

const kindOf = (index: number): string => (index % 10 < 7 ? "often" : index % 10 < 9 ? "now and then" : "seldom");
const traitsOf = (index: number) => ({ kind: kindOf(index), case: null, level: null });
const indexes = Array.from({ length: 100 }, (_, index) => index);

describe("createTaskOrder()", () => {
  const order = createTaskOrder({ indexes, traitsOf, seed: 1 });

  test("kinds take turns, however many tasks each has", () => {
    for (let step = 0; step < 20; step++) {
      const kinds = [0, 1, 2].map((place) => kindOf(order.taskIndex(step * 3 + place, {})));
      expect(new Set(kinds).size).toBe(3);
    }
  });

  test("all tasks of a kind come up before one comes up again, in another order then", () => {
    const all = Array.from({ length: 90 }, (_, number) => order.taskIndex(number, {}));
    const seldom = all.filter((index) => index % 10 === 9);
    expect(new Set(seldom.slice(0, 10)).size).toBe(10);
    expect(new Set(seldom.slice(10, 20)).size).toBe(10);
    expect(seldom.slice(0, 10)).not.toEqual(seldom.slice(10, 20));
  });

  test("a number names the same task whatever was asked before, and another one with another seed", () => {
    const later = order.taskIndex(250, {});
    order.taskIndex(0, {});
    expect(createTaskOrder({ indexes, traitsOf, seed: 1 }).taskIndex(250, {})).toBe(later);
    const first = (seed: number): number[] =>
      Array.from({ length: 20 }, (_, number) => createTaskOrder({ indexes, traitsOf, seed }).taskIndex(number, {}));
    expect(first(1)).not.toEqual(first(2));
    expect(() => createTaskOrder({ indexes: [], traitsOf, seed: 1 })).toThrow("there are none");
  });
});

describe("createLiveOrder()", () => {
  const order = createLiveOrder({ indexes, traitsOf: (index) => ({ ...traitsOf(index), case: "plain" }), seed: 1 });
  const shareOf = (name: string, live: LiveShares): number => {
    const drawn = Array.from({ length: 4000 }, (_, number) => order.nameOf(order.taskIndex(number, live)));
    return drawn.filter((one) => one === name).length / drawn.length;
  };

  test("follows the tasks at first, then what taught something, and gives nothing up", () => {
    expect(shareOf("often: plain", {})).toBeCloseTo(0.7, 1);
    const live = { "often: plain": 0.1, "now and then: plain": 1, "seldom: plain": 0 };
    // Weights 7, 20 and, for tasks that never teach, one half.
    expect(shareOf("now and then: plain", live)).toBeCloseTo(20 / 27.5, 1);
    expect(shareOf("seldom: plain", live)).toBeGreaterThan(0.005);
    expect(shareOf("seldom: plain", live)).toBeLessThan(0.04);
  });

  test.each(["__proto__", "constructor", "toString"])("takes the kind %j for a kind like others", (kind) => {
    const odd = createLiveOrder({ indexes, traitsOf: () => ({ kind, case: null, level: null }), seed: 1 });
    const silent = liveShares({}, [[kind, false]]);
    expect(Object.entries(silent)).toEqual([[kind, 0.75]]);
    expect(Object.entries(liveShares(silent, [[kind, true]]))).toEqual([[kind, 0.8125]]);
    for (const live of [{}, silent]) expect(indexes).toContain(odd.taskIndex(3, live));
  });

  test("names the same task for the same number and state", () => {
    expect(order.taskIndex(7, { "often: plain": 0.5 })).toBe(order.taskIndex(7, { "often: plain": 0.5 }));
  });

  test("liveShares() forgets: ten silent groups leave little of a share, and one live group brings a quarter back", () => {
    const silent = liveShares(
      {},
      Array.from({ length: 10 }, () => ["a", false] as const),
    );
    expect(silent["a"]).toBeLessThan(0.06);
    expect(liveShares(silent, [["a", true]])["a"]).toBeGreaterThan(0.25);
    expect(silent["b"]).toBeUndefined();
  });
});
