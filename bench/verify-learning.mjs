// `npm run verify -- learning`: the nano model learns a reduced set of tasks, with a fixed seed and
// two threads, and its greedy pass rate on held-out tasks must rise by more than chance explains.
// A control runs beside it: with reversed rewards and everything else unchanged, the greedy pass
// rate must fall by more than chance explains, so what the model learns is what its rewards say.
// Each is a separate process, so that one computes while the other waits for its threads; three
// minutes on two cores.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { root, runCommand } from "../scripts/run-command.mjs";
import { setUp } from "../scripts/setup.mjs";

/**
 * Minimum of the lower bound of the gain, and of the control's fall, as a share of the tasks: above
 * chance, and no more. Ten
 * small steps gain between 8 and 16 points, depending on the episodes that the seed draws, and
 * every change of the text that an agent reads draws others.
 */
const margin = 0;
const finalTasks = 240;
/**
 * Training steps for each sabotage. The control is short: a policy that collapses rambles, and its
 * last steps cost the most.
 */
const steps = { none: 10, "reversed-rewards": 6 };

const [chosenModel, training] = process.argv.slice(2);
process.exitCode = training in steps ? await train(chosenModel, training) : await verify(chosenModel);

/** One of the trainings; the last line of its output is its comparison over all tasks. */
async function train(model, sabotage) {
  const { learningRun } = await import("./lib/learning-run.mjs");
  const { comparisonTable } = await import("../dist/cli/display/training-display.js");
  const { caseTable } = await import("./lib/case-table.mjs");
  const flags = {
    model,
    env: join(root, "bench", "lib", "habit-bookshop.mjs"),
    tasks: "0-2099",
    steps: steps[sabotage],
    minutes: 20,
    groups: 8,
    threads: 2,
    seed: 1,
    warmUp: 2,
    // Without the penalty for the distance to the first model, which limits every change.
    kl: 0,
    evalEvery: 0,
    evalTasks: finalTasks,
    finalTasks,
  };
  const folder = await mkdtemp(join(tmpdir(), "verify-learning-"));
  const { comparison, greedy, end } = await learningRun({ flags, folder, sabotage });
  await rm(folder, { recursive: true });
  if (end.type !== "steps") throw new Error(`The training ended by "${end.type}": ${end.reason}.`);
  console.log([...comparisonTable(comparison, greedy), "", ...caseTable(comparison, greedy)].join("\n"));
  const [{ gain, gainInterval }] = greedy;
  console.log(JSON.stringify({ gain, low: gainInterval.low, high: gainInterval.high }));
  return 0;
}

/** Runs both at once, and compares them. */
async function verify(chosen) {
  // The clone is set up here, once, before both processes would do it.
  await setUp();
  const { shippedCheckpoint } = await import("../dist/learner/model/index.js");
  const model = chosen ?? shippedCheckpoint("bookshop-nano");
  const ended = await Promise.all(
    Object.keys(steps).map((one) => runCommand(process.execPath, [fileURLToPath(import.meta.url), model, one])),
  );
  const [right, reversed] = ended.map(({ code, output, seconds }, place) => {
    const lines = output.split("\n");
    if (place === 1) console.log("\nThe control: reversed rewards.");
    console.log((code === 0 ? lines.slice(0, -1) : lines).join("\n"));
    console.log(`It took ${seconds.toFixed(0)} s and ended with code ${code}.`);
    return code === 0 ? JSON.parse(lines.at(-1)) : null;
  });
  if (right === null || reversed === null) {
    console.log("Cannot show that the model learns from its rewards: a training failed, see above.");
    return 1;
  }
  const points = (share) => (share * 100).toFixed(1);
  console.log(
    `\nGreedily the pass rate rose by ${points(right.gain)} points, at least ${points(right.low)} with 95 % confidence.`,
    `\nWith reversed rewards it changed by ${points(reversed.gain)} points in ${steps["reversed-rewards"]} steps, at most ${points(reversed.high)} with 95 % confidence.`,
  );
  const problems = [];
  if (right.low < margin) {
    problems.push(`the lower bound of the gain is ${points(right.low)} points, ${points(margin)} are expected`);
  }
  if (reversed.high >= -margin) {
    problems.push(`with reversed rewards its upper bound is ${points(reversed.high)} points, a fall is expected`);
  }
  if (problems.length > 0) console.log(`Cannot show that the model learns from its rewards: ${problems.join("; ")}.`);
  return problems.length === 0 ? 0 : 1;
}
