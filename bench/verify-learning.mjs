// `npm run verify:learning`: the nano model learns a reduced set of tasks, with a fixed seed and two threads, and its pass
// rate on held-out tasks must rise by more than chance explains. A minute or two on two cores.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { root } from "../scripts/run-command.mjs";
import { setUp } from "../scripts/setup.mjs";

/** The least that the lower bound of the gain may be, in points. */
const margin = 0;

await setUp();
const { trainPolicy } = await import("../dist/cli/learning/train-policy.js");
const { resolveTrainSettings } = await import("../dist/cli/settings/resolve-train-settings.js");
const { comparisonTable } = await import("../dist/cli/learning/comparison.js");
const { shippedCheckpoint } = await import("../dist/model/index.js");

const folder = await mkdtemp(join(tmpdir(), "verify-learning-"));
const never = new AbortController().signal;
const { stdout, stderr, env } = process;
const context = { stdout, stderr, env, cwd: process.cwd(), drain: never, cancel: never, program: "trainable-agents" };
const { settings, base } = resolveTrainSettings(
  {
    model: process.argv[2] ?? shippedCheckpoint("bookshop-nano"),
    env: join(root, "bench", "lib", "plain-bookshop.mjs"),
    tasks: "0-2099",
    steps: 12,
    minutes: 10,
    groups: 12,
    threads: 2,
    seed: 1,
    lr: 3e-4,
    warmUp: 2,
    evalEvery: 0,
    finalTasks: 350,
  },
  null,
);
const { comparison, end } = await trainPolicy({ settings, base, folder, context });
await rm(folder, { recursive: true });
const [all] = comparison ?? [];
console.log(comparisonTable(comparison ?? []).join("\n"));
const low = all?.gainInterval?.low ?? -1;
const isLearnt = end.type === "steps" && low > margin;
console.log(
  isLearnt
    ? `The pass rate rose by ${(all.gain * 100).toFixed(1)} points, at least ${(low * 100).toFixed(1)} with 95 % confidence.`
    : `Cannot show that the model learns: it ended by "${end.type}", and the lower bound of the gain is ${(low * 100).toFixed(1)} points; more than ${margin * 100} is wanted.`,
);
process.exitCode = isLearnt ? 0 : 1;
