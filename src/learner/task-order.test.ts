import { expect, test } from "vitest";

import { createTaskOrder } from "./policy-learner.ts";

const kindOf = (index: number): string => (index % 10 < 7 ? "often" : index % 10 < 9 ? "now and then" : "seldom");
const indexes = Array.from({ length: 100 }, (_, index) => index);

test("kinds take turns, however many tasks each has", () => {
  const order = createTaskOrder({ indexes, kindOf, seed: 1 });
  for (let step = 0; step < 20; step++) {
    const kinds = [0, 1, 2].map((place) => kindOf(order.taskIndex(step * 3 + place)));
    expect(new Set(kinds).size).toBe(3);
  }
});

test("all tasks of a kind come up before one comes up again, in another order then", () => {
  const order = createTaskOrder({ indexes, kindOf, seed: 1 });
  const seldom = Array.from({ length: 90 }, (_, number) => order.taskIndex(number)).filter((index) => index % 10 === 9);
  expect(new Set(seldom.slice(0, 10)).size).toBe(10);
  expect(new Set(seldom.slice(10, 20)).size).toBe(10);
  expect(seldom.slice(0, 10)).not.toEqual(seldom.slice(10, 20));
});

test("a number names the same task whatever was asked before, and another one with another seed", () => {
  const order = createTaskOrder({ indexes, kindOf, seed: 1 });
  const later = order.taskIndex(250);
  order.taskIndex(0);
  expect(createTaskOrder({ indexes, kindOf, seed: 1 }).taskIndex(250)).toBe(later);
  const first = (seed: number): number[] =>
    Array.from({ length: 20 }, (_, number) => createTaskOrder({ indexes, kindOf, seed }).taskIndex(number));
  expect(first(1)).not.toEqual(first(2));
  expect(() => createTaskOrder({ indexes: [], kindOf, seed: 1 })).toThrow("there are none");
});
