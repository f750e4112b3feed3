// `npm run verify -- real-model -- learning`: the 0.5B model learns the stockroom, whose answers take
// two calls in order, with three seeds of 40 minutes; a control with a shifted loss mask takes 20.
// Greedily its pass rate on the 60 held-out tasks must rise by 30 points, with an interval paired by
// task and pooled over the seeds that excludes 15; the control must not rise by more than chance
// explains. `learning:seed-1` or `learning:control` runs one of them only, `learning:report` none.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { root } from "../../run-command.mjs";

/**
 * The trainings, each a folder. With --quick all are short, and no result is required.
 *
 * @type {Readonly<Record<string, { readonly seed: number, readonly minutes: number, readonly sabotage: import("../../../dist/learner/index.js").Sabotage }>>}
 */
const trainings = {
  "seed-0": { seed: 0, minutes: 40, sabotage: "none" },
  "seed-1": { seed: 1, minutes: 40, sabotage: "none" },
  "seed-2": { seed: 2, minutes: 40, sabotage: "none" },
  control: { seed: 0, minutes: 20, sabotage: "shifted-mask" },
};
const heldOut = 60;
const least = { gain: 0.3, low: 0.15 };

/**
 * @param {object} options
 * @param {string} options.gguf
 * @param {string} options.python
 * @param {string} options.folder
 * @param {string | null} options.only Name of a training, "report", or `null` for all.
 * @param {boolean} options.quick
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRealLearning({ gguf, python, folder, only, quick }) {
  const names = Object.keys(trainings).filter((name) => only === null || name === only);
  const tasks = quick ? 4 : heldOut;
  for (const name of names) {
    const training = trainings[name];
    if (training === undefined) continue;
    const { seed, minutes, sabotage } = training;
    const out = join(folder, quick ? `quick-${name}` : name);
    if (existsSync(join(out, "result.json"))) continue;
    process.stdout.write(`\n=== ${name}: ${minutes} minutes, ${sabotage === "none" ? "the right mask" : sabotage}\n`);
    await trainOnce({ gguf, python, out, seed, sabotage, tasks, minutes: quick ? 5 : minutes });
  }
  return report(folder, { quick, tasks });
}

/**
 * Begins a training, or resumes one that was stopped.
 *
 * @param {{ readonly gguf: string, readonly python: string, readonly out: string, readonly seed: number,
 *   readonly sabotage: import("../../../dist/learner/index.js").Sabotage, readonly tasks: number, readonly minutes: number }} options
 */
async function trainOnce({ gguf, python, out, seed, sabotage, tasks, minutes }) {
  const { readTraining, trainFrom } = await import("../../../dist/api/train.js");
  const { stepLine } = await import("../../../dist/cli/display/training-display.js");
  /** @type {import("../../../dist/api/train.js").TrainOptions} */
  const begun = {
    gguf,
    python,
    out,
    seed,
    minutes,
    env: join(root, "examples", "stockroom", "environment.ts"),
    strategy: "act",
    maxTurns: 6,
    maxNewTokens: 48,
    maxContextTokens: 1536,
    finalTasks: tasks,
    evalEvery: 0,
    groups: 4,
    maxGroups: 6,
  };
  const resumed = existsSync(join(out, "train.json"));
  let shown = 0;
  const onEvent = (/** @type {import("../../../dist/learner/index.js").TrainingEvent} */ event) => {
    if (event.type === "notice") process.stdout.write(`${event.message}\n`);
    const metrics = event.type === "progress" ? event.progress.metrics : null;
    const step = metrics?.["step"] ?? 0;
    if (metrics === null || step <= shown) return;
    shown = step;
    process.stdout.write(`${stepLine(metrics)}\n`);
  };
  const settings = await readTraining(resumed ? { resume: out, python } : begun);
  const { end, verdict } = await trainFrom(settings, { onEvent, sabotage });
  process.stdout.write(`${end.reason}\n${verdict ?? ""}\n`);
}

/**
 * Rates, gains and intervals of the trainings that have ended.
 *
 * @param {string} folder
 * @param {{ readonly quick: boolean, readonly tasks: number }} options
 */
async function report(folder, { quick, tasks }) {
  const { differenceInterval } = await import("../../../dist/statistics/index.js");
  /** @type {Record<string, readonly number[]>} */
  const differences = {};
  process.stdout.write(
    `\ntraining    steps  greedily before -> after  95 % of gain, in points, of ${tasks} held-out tasks\n`,
  );
  for (const name of Object.keys(trainings)) {
    const place = join(folder, quick ? `quick-${name}` : name);
    if (!existsSync(join(place, "result.json"))) continue;
    const [before, after] = await Promise.all([
      outcomes(join(place, "before-greedy.jsonl")),
      outcomes(join(place, "after-greedy.jsonl")),
    ]);
    const changes = before.map(({ passed }, at) => (after[at]?.passed ?? 0) - passed);
    differences[name] = changes;
    const result = await readFile(join(place, "result.json"), "utf8");
    const { steps } = /** @type {{ readonly steps: number }} */ (JSON.parse(result));
    const rates = [before, after].map((list) => points(mean(list.map(({ passed }) => passed)))).join(" -> ");
    process.stdout.write(
      `${name.padEnd(10)} ${String(steps).padStart(6)}  ${rates.padEnd(24)}  ${show(differenceInterval(changes))}\n`,
    );
  }
  const seeds = Object.keys(differences).filter((name) => name !== "control");
  if (seeds.length === 0 || quick) return 0;
  // One number per task: the mean of its changes over the seeds, so that a task counts once.
  const pooled = (differences[seeds[0] ?? ""] ?? []).map((_, at) =>
    mean(seeds.map((name) => differences[name]?.[at] ?? 0)),
  );
  const [gain, interval] = [mean(pooled), differenceInterval(pooled)];
  process.stdout.write(`pooled over ${seeds.length} seeds: ${points(gain)} points (${show(interval)})\n`);
  const problems = [];
  if (gain < least.gain || (interval?.low ?? -1) < least.low) {
    problems.push(
      `the gain is ${points(gain)} points (${show(interval)}), ${points(least.gain)} and a lower bound of ${points(least.low)} are expected`,
    );
  }
  const control = differences["control"];
  if (control !== undefined && (differenceInterval(control)?.low ?? 0) > 0) problems.push("the control rose");
  const missing = Object.keys(trainings).filter((name) => !(name in differences));
  if (missing.length > 0) process.stdout.write(`Not run yet: ${missing.join(", ")}.\n`);
  if (problems.length > 0) process.stdout.write(`Cannot show that a real model learns: ${problems.join("; ")}.\n`);
  return problems.length === 0 ? 0 : 1;
}

/** @param {string} path @returns {Promise<readonly { readonly passed: number }[]>} */
async function outcomes(path) {
  const lines = (await readFile(path, "utf8")).split("\n");
  return lines.filter((line) => line !== "").map(readOutcome);
}

/** @param {string} line @returns {{ readonly passed: number }} */
function readOutcome(line) {
  return /** @type {{ readonly passed: number }} */ (JSON.parse(line));
}

/** @param {readonly number[]} values */
function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

/** @param {number} share */
function points(share) {
  return (share * 100).toFixed(1);
}

/** @param {{ readonly low: number, readonly high: number } | null} interval */
function show(interval) {
  return interval === null ? "unknown" : `${points(interval.low)} to ${points(interval.high)}`;
}
