// `npm run bench -- bar`: what the learner promises, measured. Trains with the defaults on several seeds, then the same with masks
// that are wrong on purpose and the checks switched off, and prints every gain with its interval, on the same held-out tasks.
// Runs that a folder already holds are not made again, so the bar can be interrupted.
//
// Options: --seeds 0,1,2  --masks none,shifted-mask,observations-too  --out runs/bar, and every flag of `train`.

import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { cpus } from "node:os";
import { join, resolve } from "node:path";

import { root } from "../scripts/run-command.mjs";
import { learningRun } from "./lib/learning-run.mjs";

const [options, flags] = readArguments(process.argv.slice(2));
const seeds = (options.seeds ?? "0,1,2").split(",").map(Number);
const masks = (options.masks ?? "none,shifted-mask,observations-too").split(",");
const out = resolve(options.out ?? join(root, "runs", "bar"));

const results = [];
for (const mask of masks) {
  for (const seed of seeds) {
    const folder = join(out, `${mask}-${seed}`);
    if (!existsSync(join(folder, "result.json"))) {
      process.stderr.write(`\n${mask}, seed ${seed}\n`);
      await learningRun({ flags: { ...flags, seed }, folder, sabotage: mask });
    }
    results.push({ mask, seed, ...JSON.parse(await readFile(join(folder, "result.json"), "utf8")) });
  }
}
report();

function report() {
  console.log(`\n${cpus().length} cores (${cpus()[0]?.model ?? "unknown"}), node ${process.versions.node}`);
  const rows = results.map(({ mask, seed, steps, elapsedMs, comparison, end }) => {
    const [all, ...kinds] = comparison;
    const worst = kinds.toSorted((a, b) => a.gain - b.gain)[0];
    return [
      mask,
      String(seed),
      String(steps),
      (elapsedMs / 60_000).toFixed(1),
      percent(all.before),
      percent(all.after),
      `${percent(all.gain)} (${percent(all.gainInterval.low)} to ${percent(all.gainInterval.high)})`,
      worst === undefined
        ? ""
        : `${worst.kind} ${percent(worst.gain)} (${percent(worst.gainInterval.low)} to ${percent(worst.gainInterval.high)})`,
      `${fixed(all.violationsBefore)} -> ${fixed(all.violationsAfter)}`,
      end.type,
    ];
  });
  const header = ["mask", "seed", "steps", "minutes", "before", "after", "gain (95 %)", "worst kind (95 %)", "violations", "ended by"]; // prettier-ignore
  for (const row of [header, header.map(() => "---"), ...rows]) console.log(`| ${row.join(" | ")} |`);

  const right = results.filter(({ mask }) => mask === "none");
  const gainOf = ({ comparison }) => comparison[0].gain;
  const mean = (list) => list.reduce((sum, one) => sum + gainOf(one), 0) / list.length;
  const verdict = (isMet, text) => console.log(`${isMet ? "met" : "NOT MET"}: ${text}`);
  console.log("");
  if (right.length === 0) return;
  verdict(right.every((run) => gainOf(run) >= 0.25), "every seed gains 25 points"); // prettier-ignore
  verdict(right.every(({ comparison }) => comparison[0].gainInterval.low >= 0.15), "the lower bound of every gain is 15 points"); // prettier-ignore
  verdict(
    right.every(({ comparison }) => comparison.slice(1).every(({ gainInterval }) => gainInterval.high >= 0)),
    "no kind of task falls beyond its interval",
  );
  verdict(right.every(({ comparison: [all] }) => all.violationsAfter < all.violationsBefore), "violations an episode fall"); // prettier-ignore
  for (const mask of masks.filter((one) => one !== "none")) {
    const runs = results.filter((run) => run.mask === mask);
    const share = mean(runs) / mean(right);
    const text = `${mask}: ${percent(mean(runs))} points on average, ${percent(mean(right))} with the right mask`;
    if (mask === "shifted-mask") verdict(share < 0.5, `${text}; less than half is wanted`);
    else console.log(text);
  }
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
    if (["seeds", "masks", "out"].includes(name)) own[name] = value;
    else others[name.replaceAll(/-(\w)/g, (_, letter) => letter.toUpperCase())] = value;
  }
  return [own, others];
}

function percent(share) {
  return (share * 100).toFixed(1);
}

function fixed(value) {
  return value === null ? "–" : value.toFixed(3);
}
