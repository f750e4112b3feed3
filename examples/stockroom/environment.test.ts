import { environmentViolations } from "trainable-agents/testing";
import { expect, it } from "vitest";
import stockroom from "./environment.ts";

const call = (name: string, key: string, value: string) => ({ name, arguments: new Map([[key, value]]) });

it("the stockroom keeps the contract of environments and holds out half of its 120 tasks", async () => {
  expect(await environmentViolations(stockroom, { tasks: 4, calls: 100 })).toEqual([]);
  expect(["train", "test"].map((split) => stockroom.taskset(split).size)).toEqual([60, 60]);
});

it("the stockroom pays for the number after both calls, and less for a part of the way", async () => {
  const task = stockroom.taskset("train").task(0);
  const rewards: unknown[] = [];
  for (const calls of [0, 1, 2, 3]) {
    const environment = stockroom.open(task);
    const steps = [
      () => environment.call(call("find_item", "name", "red lamp")),
      () => environment.call(call("get_price", "code", "A10")),
      () => environment.receiveUtterance("It costs 101."),
    ];
    for (const step of steps.slice(0, calls)) await step();
    if (calls < 3) await environment.receiveUtterance("I do not know.");
    rewards.push((await environment.grade({ outcome: "completed" })).reward);
  }
  expect(rewards).toEqual([0, 0.2, 0.4, 1]);
});

it("the stockroom does not pay for a number that was guessed", async () => {
  const environment = stockroom.open(stockroom.taskset("train").task(0));
  await environment.receiveUtterance("It costs 101.");
  expect((await environment.grade({ outcome: "completed" })).reward).toBe(0);
});
