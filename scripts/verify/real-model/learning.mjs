// `npm run verify -- real-model -- learning`: the 0.5B model learns the stockroom, whose answers take
// two calls in order, with three seeds of 40 minutes. A control of 20 minutes has a loss mask that
// is shifted by 20 tokens, without sampled ones. The 60 held-out tasks are then played greedily, by the first model and by
// each adapter: the pass rate must rise by 30 points, with an interval paired by task and pooled over
// the seeds that excludes 15, and the control must not rise by more than chance explains.
// `learning:before`, `learning:seed-1` or `learning:control` runs one of them only, `learning:report`
// none. The report takes what this checkout has not run from the committed figures, and writes all
// figures and a picture into the build folder, for the docs. `learning:llama-cpp` plays the held-out tasks with the adapters of trainings that have ended,
// in llama.cpp and without Python.

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { root } from "../../run-command.mjs";
import { installLlama } from "../peers.mjs";
import { CannotVerify } from "../python.mjs";
import { freePorts, startServer } from "../servers.mjs";
import { drawLearning } from "./learning-picture.mjs";

/**
 * The trainings, each a folder. With --quick all are short, and no result is required.
 *
 * @type {Readonly<Record<string, { readonly seed: number, readonly minutes: number, readonly sabotage: import("../../../dist/learner/index.js").Sabotage }>>}
 */
const trainings = {
  "seed-0": { seed: 0, minutes: 40, sabotage: "none" },
  "seed-1": { seed: 1, minutes: 40, sabotage: "none" },
  "seed-2": { seed: 2, minutes: 40, sabotage: "none" },
  control: { seed: 0, minutes: 20, sabotage: "far-shifted-mask" },
};
const heldOut = 60;
const least = { gain: 0.3, low: 0.15 };

/** Flags of all episodes. */
const world = {
  env: join(root, "examples", "stockroom", "environment.ts"),
  strategy: "act",
  maxTurns: 6,
  maxNewTokens: 48,
  maxContextTokens: 1536,
};

/**
 * `only`: "before", the name of a training, "report", or `null` for all.
 *
 * @param {import("../real-model.mjs").Given} given
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRealLearning({ gguf, python, folder, only, quick }) {
  const tasks = quick ? 4 : heldOut;
  const place = (/** @type {string} */ name) => join(folder, quick ? `quick-${name}` : name);
  if (only === "llama-cpp") return playInLlamaCpp(place, { gguf: await gguf("0.5B"), tasks });
  for (const name of ["before", ...Object.keys(trainings)].filter((one) => only === null || one === only)) {
    const given = { gguf: await gguf("0.5B"), python: python() };
    const training = trainings[name];
    /** @type {string | null} */
    let adapter = null;
    if (training !== undefined) {
      const { seed, minutes, sabotage } = training;
      const out = place(name);
      if (!existsSync(join(out, "result.json"))) {
        process.stdout.write(`\n=== ${name}: ${minutes} minutes, ${sabotage}\n`);
        await trainOnce({ ...given, out, seed, sabotage, minutes: quick ? 5 : minutes });
      }
      adapter = await newestCheckpoint(out);
    }
    process.stdout.write(`\n=== ${name}: ${tasks} held-out tasks, greedily\n`);
    await playGreedily({ ...given, adapter, tasks, folder: place(`${name}-evaluation`) });
  }
  return report(place, { quick, tasks });
}

/**
 * Begins a training, or resumes one that was stopped.
 *
 * @param {{ readonly gguf: string, readonly python: string, readonly out: string, readonly seed: number,
 *   readonly sabotage: import("../../../dist/learner/index.js").Sabotage, readonly minutes: number }} options
 */
async function trainOnce({ gguf, python, out, seed, sabotage, minutes }) {
  const { readTraining, trainFrom } = await import("../../../dist/api/train.js");
  const { stepLine } = await import("../../../dist/cli/display/training-display.js");
  /** @type {import("../../../dist/api/train.js").TrainOptions} */
  const begun = {
    gguf,
    python,
    out,
    seed,
    minutes,
    ...world,
    // The evaluation is a run of its own, so that the minutes are those of the training.
    finalTasks: 2,
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
 * Plays the held-out tasks greedily with the weights of a checkpoint, or those of the model, on a
 * server of torch that ends afterwards. A run that was stopped resumes.
 *
 * @param {{ readonly gguf: string, readonly python: string, readonly adapter: string | null, readonly tasks: number, readonly folder: string }} options
 */
async function playGreedily({ gguf, python, adapter, tasks, folder }) {
  const out = join(folder, "run");
  if (existsSync(join(folder, "done"))) return;
  const tokenizer = join(folder, "tokenizer");
  await mkdir(folder, { recursive: true });
  const [port = 0] = await freePorts(1);
  const server = await startServer({
    name: "the torch server",
    command: python,
    parameters: [
      ...[
        "-m",
        "trainable_agents.torch_server",
        "--gguf",
        gguf,
        "--write-tokenizer",
        tokenizer,
        "--port",
        String(port),
      ],
      ...["--context", String(world.maxContextTokens), ...(adapter === null ? [] : ["--adapter", adapter])],
    ],
    env: { PYTHONPATH: join(root, "python") },
    log: join(folder, "server.log"),
    url: `http://127.0.0.1:${port}`,
    readyPath: "/health",
    timeoutMs: 600_000,
  });
  try {
    const policy = ["--engine", "sglang", "--url", server.url, "--model", tokenizer, "--concurrency", "32"];
    playHeldOut(policy, { tasks, out, cwd: root });
    await writeFile(join(folder, "done"), "");
  } finally {
    await server.kill();
  }
}

/**
 * Plays held-out tasks greedily, or resumes such a run. Throws if it does not end well.
 *
 * @param {readonly string[]} policy Flags.
 * @param {{ readonly tasks: number, readonly out: string, readonly cwd: string }} options
 */
function playHeldOut(policy, { tasks, out, cwd }) {
  const flags = existsSync(join(out, "run.json"))
    ? ["--resume", out]
    : [
        ...[...policy, "--env", world.env, "--split", "test", "--strategy", world.strategy],
        ...["--tasks", `0-${tasks - 1}`, "--group-size", "1", "--temperature", "0", "--out", out],
        ...["--max-turns", String(world.maxTurns), "--max-new-tokens", String(world.maxNewTokens)],
        ...["--max-context-tokens", String(world.maxContextTokens)],
      ];
  const { status } = spawnSync(process.execPath, [join(root, "dist", "cli", "main.js"), "rollout", ...flags], {
    cwd,
    stdio: ["ignore", "inherit", "inherit"],
  });
  if (status !== 0)
    throw new CannotVerify(`Cannot verify: the rollout ended with code ${status}; run this again to resume it.`);
}

/**
 * Plays the held-out tasks with each adapter as a GGUF file.
 *
 * @param {(name: string) => string} place
 * @param {{ readonly gguf: string, readonly tasks: number }} options
 * @returns {Promise<number>} The exit code: 1 if an adapter passes fewer tasks than in PyTorch, by more than five in a hundred.
 */
async function playInLlamaCpp(place, { gguf, tasks }) {
  const cwd = installLlama();
  let isWorse = false;
  for (const name of Object.keys(trainings).filter((one) => existsSync(join(place(`${one}-evaluation`), "done")))) {
    const adapter = join(await newestCheckpoint(place(name)), "adapter.gguf");
    const out = join(place(`${name}-llama-cpp`), "run");
    const policy = ["--gguf", gguf, "--gguf-adapter", adapter, "--model", join(place(name), "model")];
    playHeldOut(policy, { tasks, out, cwd });
    const [here, torch] = [await passes(out), await passes(join(place(`${name}-evaluation`), "run"))];
    const [passed, expected] = [here, torch].map((list) => mean([...list.values()]));
    isWorse ||= (passed ?? 0) < (expected ?? 0) - 0.05;
    process.stdout.write(`${name}: ${points(passed ?? 0)} % in llama.cpp, ${points(expected ?? 0)} % in PyTorch\n`);
  }
  return isWorse ? 1 : 0;
}

/** The checkpoint that a training wrote last. @param {string} out */
async function newestCheckpoint(out) {
  const names = (await readdir(join(out, "checkpoints"))).filter((name) => name.startsWith("step-"));
  const newest = names.sort((one, other) => Number(one.slice(5)) - Number(other.slice(5))).at(-1);
  if (newest === undefined) throw new CannotVerify(`Cannot verify: the training in ${out} has no checkpoint.`);
  return join(out, "checkpoints", newest);
}

/**
 * Figures of a training that has ended.
 *
 * @typedef {object} Recorded
 * @property {string} date Of its end, as 2026-11-29.
 * @property {number} steps
 * @property {readonly import("./learning-picture.mjs").Point[]} curve
 * @property {Readonly<Record<string, number>>} passes 1 or 0 for each held-out task.
 */
/** @typedef {{ readonly before: Readonly<Record<string, number>> | null, readonly trainings: Readonly<Record<string, Recorded>> }} Figures */

const committed = fileURLToPath(new URL("learning-figures.json", import.meta.url));

/**
 * Figures of what this checkout has run; of all else, the committed ones.
 *
 * @param {(name: string) => string} place
 * @param {{ readonly quick: boolean }} options
 * @returns {Promise<Figures>}
 */
async function readFigures(place, { quick }) {
  /** @type {Figures} */
  const none = { before: null, trainings: {} };
  const known = quick ? none : /** @type {Figures} */ (JSON.parse(await readFile(committed, "utf8")));
  const hasEnded = (/** @type {string} */ name) => existsSync(join(place(`${name}-evaluation`), "done"));
  const heldOutOf = async (/** @type {string} */ name) =>
    Object.fromEntries(
      [...(await passes(join(place(`${name}-evaluation`), "run")))].toSorted(([one], [other]) =>
        one < other ? -1 : 1,
      ),
    );
  /** @type {Record<string, Recorded>} */
  const found = {};
  for (const name of Object.keys(trainings)) {
    if (hasEnded(name)) found[name] = await readTrained(place(name), await heldOutOf(name));
    else if (known.trainings[name] !== undefined) found[name] = known.trainings[name];
  }
  return { before: hasEnded("before") ? await heldOutOf("before") : known.before, trainings: found };
}

/**
 * @param {string} folder Of a training that has ended.
 * @param {Readonly<Record<string, number>>} heldOutPasses
 * @returns {Promise<Recorded>}
 */
async function readTrained(folder, heldOutPasses) {
  const file = join(folder, "result.json");
  const { steps } = /** @type {{ readonly steps: number }} */ (JSON.parse(await readFile(file, "utf8")));
  const date = (await stat(file)).mtime.toISOString().slice(0, 10);
  const [header = "", ...lines] = (await readFile(join(folder, "metrics.csv"), "utf8")).trim().split("\n");
  const names = header.split(",");
  const column = (/** @type {string} */ line, /** @type {string} */ name) =>
    Number(line.split(",")[names.indexOf(name)] ?? NaN);
  let seconds = 0;
  const curve = lines.map((line) => {
    seconds += column(line, "rollout_seconds");
    const point = { minutes: Number((seconds / 60).toFixed(2)), rate: column(line, "pass_rate") };
    seconds += column(line, "train_seconds");
    return point;
  });
  return { date, steps, curve, passes: heldOutPasses };
}

/**
 * Rates, gains and intervals of the trainings that have ended.
 *
 * @param {(name: string) => string} place
 * @param {{ readonly quick: boolean, readonly tasks: number }} options
 */
async function report(place, { quick, tasks }) {
  const { differenceInterval } = await import("../../../dist/statistics/index.js");
  const figures = await readFigures(place, { quick });
  const { before } = figures;
  if (before === null) {
    process.stdout.write("Not run yet: before.\n");
    return 0;
  }
  /** @type {Record<string, readonly number[]>} */
  const differences = {};
  /** @type {import("./learning-picture.mjs").Shown[]} */
  const shown = [];
  process.stdout.write(
    `\ntraining    steps  greedily before -> after  95 % of gain, in points, of ${tasks} held-out tasks\n`,
  );
  for (const [name, { date, steps, curve, passes: after }] of Object.entries(figures.trainings)) {
    const changes = Object.keys(before).map((id) => (after[id] ?? 0) - (before[id] ?? 0));
    differences[name] = changes;
    const [first = 0, last = 0] = [before, after].map((values) => mean(Object.values(values)));
    const rates = [first, last].map(points).join(" -> ");
    shown.push({ name, curve, before: first, after: last });
    process.stdout.write(
      `${name.padEnd(10)} ${String(steps).padStart(6)}  ${rates.padEnd(24)}  ${show(differenceInterval(changes)).padEnd(16)}  ${date}\n`,
    );
  }
  if (shown.length > 0) {
    await writeFile(`${place("figures")}.json`, `${JSON.stringify(figures, null, 2)}\n`);
    await drawLearning(`${place("picture")}.svg`, shown);
    process.stdout.write(`figures and picture: ${place("figures")}.json, ${place("picture")}.svg\n`);
  }
  for (const name of ["before", ...Object.keys(trainings)]) {
    if (existsSync(join(place(`${name}-evaluation`), "done")))
      await describe(name, join(place(`${name}-evaluation`), "run"));
  }
  const learnt = Object.keys(trainings).find(
    (name) => name !== "control" && existsSync(join(place(name), "result.json")),
  );
  if (learnt !== undefined && existsSync(join(place("before-evaluation"), "done"))) await writeDemo(place, learnt);
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

/**
 * Prints how many episodes copy the example of the guidelines, which names an item and a code that no
 * task has, and how many places 20 tokens after an action are actions themselves.
 *
 * @param {string} name
 * @param {string} run
 */
async function describe(name, run) {
  const { readEpisodes } = await import("../../../dist/store/index.js");
  const { episodeSamples } = await import("../../../dist/rollout/index.js");
  const counts = { episodes: 0, copies: 0, shifted: 0, actions: 0 };
  for await (const episode of readEpisodes(run)) {
    counts.episodes++;
    const said = episode.events.flatMap((event) => (event.type === "decision" ? [event.action.text] : []));
    const asksForIt = episode.task.instruction?.includes("silver sofa") === true;
    if (!asksForIt && said.some((text) => /Z99|silver sofa/.test(text))) counts.copies++;
    for (const { lossMask } of episodeSamples(episode).samples) {
      const shifted = lossMask.subarray(20).filter((_, at) => lossMask[at] === 1);
      counts.shifted += shifted.length;
      counts.actions += shifted.reduce((sum, one) => sum + one, 0);
    }
  }
  const share = points(counts.actions / Math.max(1, counts.shifted));
  process.stdout.write(
    `${name}: ${counts.copies} of ${counts.episodes} episodes copy the example; ${share} % of the places 20 tokens after an action are actions\n`,
  );
}

/**
 * Writes the page of the runs before and after a training, and of the training itself: examples/demo.html.
 *
 * @param {(name: string) => string} place
 * @param {string} name The training.
 */
async function writeDemo(place, name) {
  const { exportView } = await import("../../../dist/index.js");
  const folder = place("demo");
  await cp(join(place("before-evaluation"), "run"), join(folder, "before"), { recursive: true });
  await cp(join(place(`${name}-evaluation`), "run"), join(folder, "after"), { recursive: true });
  await mkdir(join(folder, "training"), { recursive: true });
  for (const file of ["train.json", "metrics.csv", "groups.jsonl"])
    await cp(join(place(name), file), join(folder, "training", file));
  const result = /** @type {object} */ (JSON.parse(await readFile(join(place(name), "result.json"), "utf8")));
  // Its own evaluation has two tasks; the runs beside it have all of them.
  const ended = { ...result, comparison: [], greedy: [] };
  await writeFile(join(folder, "training", "result.json"), JSON.stringify(ended));
  const bytes = await exportView({ sources: ["before", "after", "training"], cwd: folder, file: `${folder}.html` });
  process.stdout.write(`page: ${folder}.html, ${bytes} bytes\n`);
}

/**
 * 1 for each task that was passed, else 0, by the task's id.
 *
 * @param {string} out Run folder.
 */
async function passes(out) {
  const { readEpisodes } = await import("../../../dist/store/index.js");
  /** @type {Map<string, number>} */
  const found = new Map();
  for await (const { task, reward } of readEpisodes(out)) found.set(task.id, reward === 1 ? 1 : 0);
  return found;
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
