// `npm run bar`: what the learner promises, measured on tasks that nothing was tuned on. Trains with the defaults on several seeds
// (which reads train and validation alone), then runs the first model and each trained one on the test split, at temperature 1 and
// greedily, and prints every gain by kind and by case with its interval by task. That the test split was read, and with what
// result, is appended to bench/test-split-reads.jsonl, which is committed: a split that is read often is a validation split.
// Runs that the folder already holds are not made again, so the bar can be interrupted.
//
// Options: --seeds 0,1,2  --masks none,shifted-mask,observations-too  --tasks 1050  --split test|fresh:<seed>|validation
// --out runs/bar, and every flag of `train`. With a mask that is wrong on purpose nothing is checked.

import { execFileSync } from "node:child_process";
import { appendFile, readdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { cpus } from "node:os";
import { join, resolve } from "node:path";

import { root } from "../scripts/run-command.mjs";
import { learningRun } from "./lib/learning-run.mjs";
import { caseTable, comparisonTable } from "../dist/cli/display/training-display.js";
import { modelPath } from "../dist/api/choose-model.js";
import { rollout } from "../dist/index.js";
import { compare } from "../dist/learner/index.js";
import { readEpisodes } from "../dist/store/index.js";

/** What the bar asks for, as shares. `bestKnown`: greedily, of the first checkpoint that was shipped, on validation. */
const bar = { greedy: 0.88, sampled: 0.84, gain: 0.15, gainLow: 0.1, bestKnown: 0.703, refusals: 0.7 };
const refusals = /\/(?:shipped|delivered|foreign|late|signed|on-its-way|sold-out|too-much|too-little)$/;

const [options, flags] = readArguments(process.argv.slice(2));
const seeds = (options.seeds ?? "0,1,2").split(",").map(Number);
const masks = (options.masks ?? "none").split(",");
const [split, tasks] = [options.split ?? "test", Number(options.tasks ?? 1050)];
const out = resolve(options.out ?? join(root, "runs", "bar"));
const base = modelPath(flags.model ?? "bookshop-1m", root);

await logRead("begun");
const before = await measure("base", base);
const runs = [];
for (const mask of masks) {
  for (const seed of seeds) {
    const folder = join(out, `${mask}-${seed}`);
    if (!existsSync(join(folder, "result.json"))) {
      process.stderr.write(`\n${mask}, seed ${seed}\n`);
      await learningRun({ flags: { minutes: 15, threads: 2, ...flags, model: base, seed }, folder, sabotage: mask });
    }
    const checkpoints = await readdir(join(folder, "checkpoints"));
    const last = checkpoints
      .filter((name) => /^step-\d+$/.test(name))
      .toSorted()
      .at(-1);
    const after = await measure(`${mask}-${seed}`, join(folder, "checkpoints", last));
    const [sampled, greedy] = ["sampled", "greedy"].map((how) => compare(before[how], after[how]));
    runs.push({ mask, seed, sampled, greedy });
    process.stdout.write(`\n${mask}, seed ${seed}, ${last}: ${tasks} tasks of ${split}, at temperature 1\n`);
    process.stdout.write(
      `${comparisonTable(sampled).join("\n")}\n\ngreedily\n${comparisonTable(greedy).join("\n")}\n\n`,
    );
    process.stdout.write(`${caseTable(sampled, greedy).join("\n")}\n`);
  }
}
process.exitCode = verdicts() ? 0 : 1;
await logRead("measured", ratesOfRuns());

/** Each task once in both ways, by a rollout whose folder stays. */
async function measure(name, model) {
  const outcomes = {};
  for (const [how, temperature] of [
    ["sampled", 1],
    ["greedy", 0],
  ]) {
    const folder = join(out, "evaluations", `${name}-${split.replace(":", "-")}-${tasks}-${how}`);
    process.stderr.write(`${name}, ${how}: ${tasks} tasks of ${split}\n`);
    const sampling = { temperature, maxNewTokens: 96, maxTurns: 20 };
    const place = { split, tasks: `0-${tasks - 1}`, seed: 0, seedTurns: true, out: folder };
    // A run that is whole is not run again.
    if (existsSync(join(folder, "run.json"))) await rollout({ resume: folder });
    else await rollout({ env: "bookshop", engine: "embedded", model, ...sampling, ...place });
    outcomes[how] = [];
    for await (const { task, reward, grade, info } of readEpisodes(folder)) {
      const cases = info.get("cases");
      outcomes[how].push({
        ...{ taskId: task.id, index: task.index, passed: reward === 1 ? 1 : 0, kind: info.get("kind") },
        ...{ level: info.get("level"), case: cases.length === 1 ? cases[0] : `${cases.length} goals` },
        ruleViolations: grade?.metrics["ruleViolations"] ?? null,
      });
    }
    outcomes[how].sort((a, b) => a.index - b.index);
    if (outcomes[how].length !== tasks)
      throw new Error(`${folder} holds ${outcomes[how].length} episodes of ${tasks}.`);
  }
  return outcomes;
}

/** True when all are met. */
function verdicts() {
  const right = runs.filter(({ mask }) => mask === "none");
  console.log(`\n${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), node ${process.versions.node}`);
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
    refused.every(({ after }) => after >= bar.refusals),
    `refusals, greedily, at least ${percent(bar.refusals)}: ${refused.map((one) => `${percent(one.before)} -> ${percent(one.after)}`).join(", ")}`,
  );
  const kindsHold = (rows) => rows.every(({ scope, gainInterval }) => scope !== "kind" || gainInterval.high >= 0);
  verdict(
    right.every(({ sampled, greedy }) => kindsHold(sampled) && kindsHold(greedy)),
    "no kind falls beyond its interval",
  );
  verdict(
    every((greedy, one) => [greedy, one].every((row) => row.violationsAfter <= row.violationsBefore / 2)),
    `violations an episode at most half: ${right.map(({ greedy: [all] }) => `${all.violationsBefore.toFixed(3)} -> ${all.violationsAfter.toFixed(3)}`).join(", ")} greedily`,
  );
  const meanGain = (list) => list.reduce((sum, { sampled }) => sum + sampled[0].gain, 0) / list.length;
  for (const mask of masks.filter((one) => one !== "none")) {
    const gain = meanGain(runs.filter((run) => run.mask === mask));
    verdict(
      gain < meanGain(right) / 2,
      `${mask} gains ${percent(gain)} points, less than half of ${percent(meanGain(right))}`,
    );
  }
  return isMet;
}

/** A line when the test split is about to be read, and one with what came out. */
async function logRead(event, rates) {
  if (split !== "test") return;
  const commit = execFileSync("git", ["rev-parse", "--short=12", "HEAD"], { cwd: root, encoding: "utf8" }).trim();
  const facts = { date: new Date().toISOString().slice(0, 10), event, commit, model: flags.model ?? "bookshop-1m" };
  const line = JSON.stringify({ ...facts, flags, seeds, masks, tasks, ...(rates === undefined ? {} : { rates }) });
  await appendFile(join(root, "bench", "test-split-reads.jsonl"), `${line}\n`);
}

function ratesOfRuns() {
  return runs.map(({ mask, seed, sampled: [one], greedy: [greedy] }) => ({
    ...{ mask, seed, sampled: [one.before, one.after], greedy: [greedy.before, greedy.after] },
  }));
}

/** Ours and those of `train`, which get the names that settings have. */
function readArguments(words) {
  const own = {};
  const others = {};
  for (let at = 0; at < words.length; at += 2) {
    const name = words[at]?.replace(/^--/, "") ?? "";
    const value = words[at + 1];
    if (!words[at]?.startsWith("--") || value === undefined) {
      process.stderr.write(`Cannot read "${words[at]}": flags come with a value, like --minutes 15.\n`);
      process.exit(2);
    }
    if (["seeds", "masks", "out", "split", "tasks"].includes(name)) own[name] = value;
    else others[name.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase())] = value;
  }
  return [own, others];
}

function percent(share) {
  return (share * 100).toFixed(1);
}
