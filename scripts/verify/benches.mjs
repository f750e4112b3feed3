// `npm run verify -- benches`: every benchmark is started once, briefly, as an outsider would start
// it: on our own world, without ../shared. The check is that it runs to its end and prints figures;
// figures of so short a run are meaningless. A benchmark that misses its target on a busy machine
// still counts as run.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { root } from "../run-command.mjs";

/** Working folder of the benchmarks, which exists while they run. */
const scratch = join(tmpdir(), `benches-${process.pid}`);

/**
 * Parameters of a brief run, or the reason why there is none.
 *
 * @type {Readonly<Record<string, readonly string[] | string>>}
 */
export const brief = {
  against: [root, "1"],
  bar: [
    ...[
      "--seeds",
      "0",
      "--tasks",
      "4",
      "--split",
      "validation",
      "--model",
      "bookshop-nano",
      "--steps",
      "1",
      "--groups",
      "1",
    ],
    ...["--group-size", "2", "--eval-tasks", "2", "--final-tasks", "4", "--out", join(scratch, "bar")],
  ],
  bridge: [],
  concurrency: ["64", "2", "2"],
  environments: ["1"],
  "episode-memory": ["12"],
  export: ["2000"],
  gateway: ["1"],
  kernels: [],
  "llama-cpp": "`npm run verify -- real-model -- benchmarks` has the model that it needs",
  "long-conversation": ["1"],
  "long-requests": ["1", "5000"],
  loop: ["--only", "turn-cost,python-loop", "--rounds", "1"],
  model: [],
  parsers: ["hermes"],
  "python-loop": "the table of loop runs it",
  reader: ["400"],
  "request-body": [],
  "start-up": ["--runs", "1"],
  "task-files": ["20000", "1"],
  "tau-bench": ["1"],
  "tau2-bench": ["1"],
  templates: ["1"],
  tokenizer: [],
  "torch-linear": ["1"],
  "turn-cost": "the table of loop runs it",
  "turn-growth": ["1"],
  "verify-rows": ["64", "verl"],
  "verify-learning": "`npm run verify -- learning` is its own check",
  viewer: "`npm run verify -- viewer` installs the browser that it needs",
  workers: ["2", "12"],
};

/** @returns {Promise<number>} An exit code. */
export async function verifyBenches() {
  const names = benchmarkNames();
  mkdirSync(scratch);
  const failed = names.filter((name) => !runs(name));
  rmSync(scratch, { recursive: true, force: true });
  process.stdout.write(
    failed.length === 0 ? `${names.length} benchmarks run.\n` : `These benchmarks do not run: ${failed.join(", ")}.\n`,
  );
  return failed.length === 0 ? 0 : 1;
}

export function benchmarkNames() {
  const files = readdirSync(join(root, "bench")).filter((file) => file.endsWith(".mjs"));
  return files.map((file) => file.slice(0, -".mjs".length));
}

/** @param {string} name */
function runs(name) {
  const parameters = brief[name] ?? "it is not listed in scripts/verify/benches.mjs";
  if (typeof parameters === "string") {
    process.stdout.write(`${name.padEnd(17)}not started: ${parameters}\n`);
    return brief[name] !== undefined;
  }
  const began = performance.now();
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--expose-gc", join(root, "bench", `${name}.mjs`), ...parameters],
    {
      cwd: scratch,
      encoding: "utf8",
      timeout: 400_000,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, BENCH_WORLD: "bookshop" },
    },
  );
  const seconds = ((performance.now() - began) / 1000).toFixed(0);
  // A missed target ends with 1 after its figures; a crash prints a stack, or a sentence that
  // begins like this.
  const isWhole = (status === 0 || status === 1) && /\d/.test(stdout) && !/^(?:Cannot|\s+at )/m.test(stdout + stderr);
  process.stdout.write(`${name.padEnd(17)}${isWhole ? "ran" : `FAILED (exit code ${status})`}, ${seconds} s\n`);
  if (!isWhole) process.stdout.write(`${(stdout + stderr).trimEnd().split("\n").slice(-12).join("\n")}\n`);
  return isWhole;
}
