// `npm run verify -- learning`: the nano model learns a reduced set of tasks, with a fixed seed and two threads, and its pass
// rate on held-out tasks must rise by more than chance explains. Then the control: with a loss mask that is shifted by one token
// and the checks switched off, it must rise by less than half as much. Two to three minutes on two cores.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { root } from "../scripts/run-command.mjs";
import { learningRun } from "./lib/learning-run.mjs";

/** The least that the lower bound of the gain may be, as a share of the tasks. */
const margin = 0.08;

const { comparisonTable } = await import("../dist/cli/display/training-display.js");
const { shippedCheckpoint } = await import("../dist/learner/model/index.js");

const flags = {
  model: process.argv[2] ?? shippedCheckpoint("bookshop-nano"),
  env: join(root, "bench", "lib", "plain-bookshop.mjs"),
  tasks: "0-2099",
  steps: 12,
  minutes: 10,
  groups: 12,
  threads: 2,
  seed: 1,
  warmUp: 2,
  evalEvery: 0,
  finalTasks: 350,
};

/** The comparison over all tasks. */
async function train(sabotage) {
  const folder = await mkdtemp(join(tmpdir(), "verify-learning-"));
  const { comparison, end } = await learningRun({ flags, folder, sabotage });
  await rm(folder, { recursive: true });
  if (end.type !== "steps") throw new Error(`The training ended by "${end.type}": ${end.reason}.`);
  console.log(comparisonTable(comparison).join("\n"));
  return comparison[0];
}

const points = (share) => (share * 100).toFixed(1);
const problems = [];
const right = await train("none");
console.log(
  `The pass rate rose by ${points(right.gain)} points, at least ${points(right.gainInterval.low)} with 95 % confidence.\n`,
);
if (right.gainInterval.low < margin) {
  problems.push(
    `the lower bound of the gain is ${points(right.gainInterval.low)} points, ${points(margin)} are expected`,
  );
}
console.log("The control: the loss mask shifted by one token, nothing checked.");
const shifted = await train("shifted-mask");
console.log(`With a mask shifted by one token the gain is ${points(shifted.gain)} points.`);
if (shifted.gain >= right.gain / 2) {
  problems.push(
    `a mask that is shifted gains ${points(shifted.gain)} points, less than half of the right one is expected`,
  );
}
if (problems.length > 0) console.log(`Cannot show that the model learns from its rewards: ${problems.join("; ")}.`);
process.exitCode = problems.length === 0 ? 0 : 1;
