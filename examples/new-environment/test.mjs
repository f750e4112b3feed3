// `npm test`: properties on which runs and rewards rely.

import assert from "node:assert/strict";
import { test } from "node:test";
import { auditEnvironment, loadEnvironmentSource } from "trainable-agents";

const env = "./NAME.ts";

test("the environment keeps its contract, and nothing is earned by doing the same everywhere", async () => {
  const { findings } = await auditEnvironment({ env });
  assert.deepEqual(
    findings.filter(({ result }) => result !== "ok"),
    [],
  );
});

/** Reward of an episode in which these calls are made and these messages are sent. */
async function play(split, index, { calls, says }) {
  const source = await loadEnvironmentSource({ env });
  const world = await source.open(source.taskset(split).task(index));
  for (const [name, args] of calls) await world.call({ name, arguments: new Map(Object.entries(args)) });
  await world.receiveUtterance(says);
  const { reward } = await world.grade({ outcome: "completed" });
  await world.close?.();
  return reward;
}

const find = (booking) => ["find_booking", { booking }];
const places = ["free_places", {}];
const move = (booking, day) => ["move_booking", { booking, day }];

test("what is right earns 1", async () => {
  const moving = [find("T-11"), places, move("T-11", "Friday")];
  assert.equal(await play("train", 0, { calls: moving, says: "It is moved to Friday." }), 1);
  assert.equal(await play("train", 1, { calls: [find("T-12"), places], says: "Sunday is full." }), 1);
  assert.equal(await play("test", 1, { calls: [find("T-22")], says: "It is on Tuesday already." }), 1);
});

test("what is wrong earns 0", async () => {
  assert.equal(await play("train", 0, { calls: [], says: "It is moved to Friday." }), 0);
  assert.equal(await play("train", 0, { calls: [find("T-11"), move("T-11", "Friday")], says: "" }), 0);
  assert.equal(await play("test", 1, { calls: [move("T-22", "Friday")], says: "It is on that day already." }), 0);
  // Neither a claim without a look nor all answers at once earns anything.
  assert.equal(await play("train", 1, { calls: [], says: "Sunday is full." }), 0);
  assert.equal(
    await play("train", 1, {
      calls: [find("T-12"), places],
      says: "Moved, full or already there: moved, full, already.",
    }),
    0,
  );
});
