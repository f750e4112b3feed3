import { environmentViolations } from "trainable-agents/testing";
import { expect, it } from "vitest";
import libraryDesk from "./01-an-environment.ts";

it("the library desk of the documentation keeps the contract of environments", async () => {
  expect(await environmentViolations(libraryDesk, { tasks: 2, calls: 300 })).toEqual([]);
});

it("the library desk pays for the right renewal and for nothing else", async () => {
  const renew = (loan: string) => ({ name: "renew_loan", arguments: new Map([["loan", loan]]) });
  const tasks = libraryDesk.taskset("test");
  const rewards = await Promise.all(
    [0, 1].map(async (index) => {
      const environment = libraryDesk.open(tasks.task(index));
      await environment.call(renew(index === 0 ? "L-17" : "L-18"));
      await environment.receiveUtterance("Done.");
      return (await environment.grade({ outcome: "completed" })).reward;
    }),
  );
  expect(rewards).toEqual([1, 1]);
  const idle = libraryDesk.open(tasks.task(0));
  await idle.receiveUtterance("Done.");
  expect(await idle.grade({ outcome: "completed" })).toMatchObject({ reward: 0 });
});
