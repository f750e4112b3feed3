// `npm run bar`: measures the learner's claims on tasks that nothing was tuned on. Trains
// with the defaults on several seeds (reading only train and validation tasks), then runs the first
// model and each trained one on the test split, at temperature 1 and greedily, and prints every
// gain by kind and by case with its interval by task. Each read of the test split and its result is
// appended to bench/test-split-reads.jsonl, which is committed: a split that is read often is a
// validation split. Complete trainings and evaluations in the folder are not repeated, so the bar
// can be interrupted; a folder of other weights, flags or another world is refused.
//
// Options, beside every flag of `train`:
//   --seeds 0,1,2  --masks none,shifted-mask,observations-too  --tasks 1050
//   --split test|fresh:<seed>|validation  --out runs/bar
// To tune anything: --split validation, which reads nothing of the test split. Runs with a
// deliberately wrong mask are controls: they are not checked, and not run by default.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { appendFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { cpus } from "node:os";
import { join, resolve } from "node:path";

import { root } from "../scripts/run-command.mjs";
import { checkFlags, learningRun } from "./lib/learning-run.mjs";
import { caseTable } from "./lib/case-table.mjs";
import { comparisonTable } from "../dist/cli/display/training-display.js";
import { modelPath } from "../dist/api/choose-model.js";
import { rolloutDefaults, traitsIn } from "../dist/api/train.js";
import { worldVersion } from "../dist/environments/bookshop/index.js";
import { rollout } from "../dist/index.js";
import { compare, fallenCases } from "../dist/learner/index.js";
import { readEpisodes } from "../dist/store/index.js";

/**
 * Thresholds of the bar, as shares. `bestKnown`: greedy success of the first shipped checkpoint on
 * validation.
 */
const bar = {
  greedy: 0.88,
  sampled: 0.84,
  gain: 0.15,
  gainLow: 0.1,
  bestKnown: 0.703,
  refusals: { before: 0.15, after: 0.7 },
};
const readsFile = "bench/test-split-reads.jsonl";
const knownMasks = ["none", "shifted-mask", "observations-too"];
/**
 * Cases in which the right answer is a refusal that the teacher did not make in most of its
 * conversations.
 */
const refusals = /\/(?:shipped|delivered|foreign|signed|on-its-way|sold-out)$/;

const [options, flags] = readArguments(process.argv.slice(2));
const seeds = (options.seeds ?? "0,1,2").split(",").map(Number);
const masks = (options.masks ?? "none").split(",");
const [split, tasks] = [options.split ?? "test", Number(options.tasks ?? 1050)];
const out = resolve(options.out ?? join(root, "runs", "bar"));
const base = modelPath(flags.model ?? "bookshop-1m", root);
const trainFlags = { minutes: 15, threads: 2, ...flags, model: base };

await checkArguments();
await claimFolder();
await logRead("begun");
const before = await measure("base", base);
const runs = [];
for (const mask of masks) {
  for (const seed of seeds) {
    const folder = join(out, `${mask}-${seed}`);
    if (!existsSync(join(folder, "result.json"))) {
      process.stderr.write(`\n${mask}, seed ${seed}\n`);
      // Leftovers of an interrupted training are removed: its minutes count only if it runs without
      // a break.
      await rm(folder, { recursive: true, force: true });
      await learningRun({ flags: { ...trainFlags, seed }, folder, sabotage: mask });
    }
    const checkpoints = await readdir(join(folder, "checkpoints"));
    const last = checkpoints
      .filter((name) => /^step-\d+$/.test(name))
      .toSorted()
      .at(-1);
    const after = await measure(`${mask}-${seed}`, join(folder, "checkpoints", last));
    const [sampled, greedy] = ["sampled", "greedy"].map((how) => compare(before[how], after[how]));
    runs.push({ mask, seed, sampled, greedy });
    process.stdout.write(`\n${mask}, seed ${seed}, ${last}: ${tasks} tasks of ${split}\n`);
    process.stdout.write(`${comparisonTable(sampled, greedy).join("\n")}\n\n`);
    process.stdout.write(`${caseTable(sampled, greedy).join("\n")}\n`);
    for (const how of ["sampled", "greedy"]) {
      for (const { kind, before: was, after: is } of fallenCases(before[how], after[how])) {
        process.stdout.write(`ALARM: ${kind} fell from ${percent(was)} % to ${percent(is)} %, ${how}\n`);
      }
    }
  }
}
process.exitCode = verdicts() ? 0 : 1;
await logRead("measured", ratesOfRuns());

/** Runs each task once in both ways, by a rollout whose folder is kept. */
async function measure(name, model) {
  const outcomes = {};
  for (const [how, temperature] of [
    ["sampled", 1],
    ["greedy", 0],
  ]) {
    const folder = join(out, "evaluations", `${name}-${split.replace(":", "-")}-${tasks}-${how}`);
    process.stderr.write(`${name}, ${how}: ${tasks} tasks of ${split}\n`);
    const sampling = { ...rolloutDefaults, temperature };
    const place = { split, tasks: `0-${tasks - 1}`, seed: 0, seedTurns: true, out: folder };
    // A complete run is not run again.
    if (existsSync(join(folder, "run.json"))) await rollout({ resume: folder });
    else await rollout({ env: "bookshop", engine: "embedded", model, ...sampling, ...place });
    outcomes[how] = [];
    for await (const { task, reward, grade, info } of readEpisodes(folder)) {
      const { id: taskId, index } = task;
      const passed = reward === 1 ? 1 : 0;
      const ruleViolations = grade?.metrics["ruleViolations"] ?? null;
      outcomes[how].push({ taskId, index, ...traitsIn(info), passed, ruleViolations });
    }
    outcomes[how].sort((a, b) => a.index - b.index);
    if (outcomes[how].length !== tasks)
      throw new Error(`${folder} holds ${outcomes[how].length} episodes of ${tasks}.`);
  }
  return outcomes;
}

/** True if all thresholds are met. */
function verdicts() {
  const right = runs.filter(({ mask }) => mask === "none");
  console.log(
    `\n${tasks} tasks of ${split}, seeds ${seeds.join(", ")}; ${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), node ${process.versions.node}`,
  );
  if (right.length === 0) return true;
  let isMet = true;
  const verdict = (holds, text) => {
    isMet &&= holds;
    console.log(`${holds ? "met" : "NOT MET"}: ${text}`);
  };
  const every = (test) => right.every(({ sampled, greedy }) => test(greedy[0], sampled[0]));
  const each = (value) => right.map(({ sampled, greedy }) => percent(value(greedy[0], sampled[0]))).join(", ");
  verdict(
    every((greedy) => greedy.after >= bar.greedy),
    `greedily at least ${percent(bar.greedy)}: ${each((greedy) => greedy.after)}`,
  );
  verdict(
    every((_, one) => one.after >= bar.sampled),
    `at temperature 1 at least ${percent(bar.sampled)}: ${each((_, one) => one.after)}`,
  );
  verdict(
    every((greedy) => greedy.gain >= bar.gain),
    `greedily ${percent(bar.gain)} points above its base: ${each((greedy) => greedy.gain)}`,
  );
  verdict(
    every((greedy) => greedy.gainInterval.low >= bar.gainLow),
    `the lower bound of that at least ${percent(bar.gainLow)}: ${each((greedy) => greedy.gainInterval.low)}`,
  );
  verdict(
    every((greedy) => greedy.after > bar.bestKnown),
    `greedily above ${percent(bar.bestKnown)}, the best known rate`,
  );
  const refused = right.map(({ greedy }) => {
    const rows = greedy.filter(({ scope, kind }) => scope === "case" && refusals.test(kind));
    const of = (side) =>
      rows.reduce((sum, row) => sum + row[side] * row.tasks, 0) / rows.reduce((sum, row) => sum + row.tasks, 0);
    return { before: of("before"), after: of("after") };
  });
  verdict(
    refused.every(({ before: was, after }) => was < bar.refusals.before && after >= bar.refusals.after),
    `refusals that the teacher forgot, greedily, from below ${percent(bar.refusals.before)} to at least ${percent(bar.refusals.after)}: ${refused.map((one) => `${percent(one.before)} -> ${percent(one.after)}`).join(", ")}`,
  );
  const kindsHold = (rows) =>
    rows.every(({ scope, gainInterval }) => scope !== "kind" || (gainInterval?.high ?? 0) >= 0);
  verdict(
    right.every(({ sampled, greedy }) => kindsHold(sampled) && kindsHold(greedy)),
    "no kind falls beyond its interval",
  );
  const violations = (row) => `${row.violationsBefore.toFixed(3)} -> ${row.violationsAfter.toFixed(3)}`;
  verdict(
    every((greedy, one) => [greedy, one].every((row) => row.violationsAfter <= row.violationsBefore / 2)),
    `violations an episode at most half: ${right.map(({ greedy, sampled }) => `${violations(greedy[0])} greedily and ${violations(sampled[0])} sampled`).join(", ")}`,
  );
  const meanGain = (list) => list.reduce((sum, { sampled }) => sum + sampled[0].gain, 0) / list.length;
  for (const mask of masks.filter((one) => one !== "none")) {
    const gain = meanGain(runs.filter((run) => run.mask === mask));
    verdict(
      gain < meanGain(right) / 2,
      `${mask} gains ${percent(gain)} points, less than half of ${percent(meanGain(right))}`,
    );
  }
  if (masks.length === 1) console.log(`not measured: the controls (--masks ${knownMasks.join()})`);
  return isMet;
}

/** Reports errors that can be detected before anything is run or read. */
async function checkArguments() {
  const unknown = masks.find((mask) => !knownMasks.includes(mask));
  if (unknown !== undefined)
    refuse(`Cannot use mask "${unknown}": there are ${knownMasks.join(", ")}; correct --masks.`);
  if (!Number.isInteger(tasks) || tasks < 2) refuse(`Cannot run "${options.tasks}" tasks: give a whole number from 2.`);
  for (const seed of seeds)
    await checkFlags({ ...trainFlags, seed }).catch((/** @type {unknown} */ error) =>
      refuse(error instanceof Error ? error.message : String(error)),
    );
}

function refuse(message) {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}

/** Claims the folder for one base, one way of training and one world, recorded in `bar.json`. */
async function claimFolder() {
  const weights = createHash("sha256")
    .update(await readFile(join(base, "model.safetensors")))
    .digest("hex");
  const settings = { ...trainFlags, model: undefined };
  const facts = `${JSON.stringify({ weights, worldVersion, settings }, null, 2)}\n`;
  const path = join(out, "bar.json");
  await mkdir(out, { recursive: true });
  const known = existsSync(path) ? await readFile(path, "utf8") : null;
  if (known === facts) return;
  if (known !== null || (await readdir(out)).length > 0) {
    refuse(
      `Cannot use "${out}": it holds runs of other weights or flags, or of another version of the bookshop; name another --out.`,
    );
  }
  await writeFile(path, facts);
}

/** Logs one line before the test split is read, and one with the result. */
async function logRead(event, rates) {
  if (split !== "test") return;
  const git = (...words) => execFileSync("git", words, { cwd: root, encoding: "utf8" }).trim();
  const isChanged = git("status", "--porcelain", "--", ".", `:!${readsFile}`) !== "";
  const commit = `${git("rev-parse", "--short=12", "HEAD")}${isChanged ? " with changes" : ""}`;
  const facts = { date: new Date().toISOString().slice(0, 10), event, commit, model: flags.model ?? "bookshop-1m" };
  const line = JSON.stringify({ ...facts, flags, seeds, masks, tasks, ...(rates === undefined ? {} : { rates }) });
  await appendFile(join(root, readsFile), `${line}\n`);
}

function ratesOfRuns() {
  return runs.map(({ mask, seed, sampled: [one], greedy: [greedy] }) => ({
    mask,
    seed,
    sampled: [one.before, one.after],
    greedy: [greedy.before, greedy.after],
  }));
}

/** Options of this program and flags of `train`, which are renamed to the names of settings. */
function readArguments(words) {
  const own = {};
  const others = {};
  for (let at = 0; at < words.length; at += 2) {
    const name = words[at]?.replace(/^--/, "") ?? "";
    const value = words[at + 1];
    if (!words[at]?.startsWith("--") || value === undefined) {
      refuse(`Cannot read "${words[at]}": flags come with a value, like --minutes 15.`);
    }
    if (["seeds", "masks", "out", "split", "tasks"].includes(name)) own[name] = value;
    else others[name.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase())] = value;
  }
  return [own, others];
}

function percent(share) {
  return (share * 100).toFixed(1);
}
