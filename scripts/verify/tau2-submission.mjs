// The submission part of `npm run verify -- tau2`: a run of ours, exported as a submission, goes
// through the three steps of upstream's own `tau2 submit`. Its figures must be those that `prepare`
// computes. `validate` ends with 0 even if it finds faults, so its output is read.

import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { join } from "node:path";

import { exportRun, rollout } from "../../dist/index.js";

/** Episodes of each task. */
const trials = 4;

/** Answers to the questions of `prepare`: the default of each, and an address. */
const answers = `${"\n".repeat(4)}someone@example.org${"\n".repeat(20)}`;

/**
 * @param {{ readonly checkout: string, readonly python: string, readonly work: string }} options
 * @returns {Promise<boolean>} True if upstream accepts everything without a warning.
 */
export async function verifySubmission({ checkout, python, work }) {
  const run = join(work, "submitted-run");
  const folder = join(work, "submission");
  const prepared = join(work, "prepared");
  mkdirSync(prepared);
  await rollout({
    env: "tau2-bench/telecom",
    data: checkout,
    split: "base",
    tasks: "all",
    groupSize: trials,
    engine: "expert",
    user: "rules",
    out: run,
  });
  await exportRun({ runs: run, format: "tau2-submission", output: folder });
  const submit = (/** @type {string[]} */ ...given) => {
    const { stdout, stderr, status } = spawnSync(python, ["-m", "tau2.cli", "submit", ...given], {
      encoding: "utf8",
      input: answers,
      maxBuffer: 64_000_000,
      env: {
        PATH: process.env["PATH"],
        HOME: work,
        COLUMNS: "300",
        PYTHONPATH: join(checkout, "src"),
        TAU2_DATA_DIR: join(checkout, "data"),
        LITELLM_LOCAL_MODEL_COST_MAP: "True",
      },
    });
    writeFileSync(join(work, `submit-${given[0]}.txt`), `${stdout}\n${stderr}`);
    return { said: stdout, isDone: status === 0 };
  };
  const file = join(folder, "trajectories", "telecom_results.json");
  const verified = submit("verify-trajs", file);
  const made = submit("prepare", file, "--output", prepared);
  const [name = ""] = readdirSync(prepared);
  const validated = [folder, join(prepared, name)].map((one) => submit("validate", one));
  const results = [folder, join(prepared, name)].map((one) => {
    const text = readFileSync(join(one, "submission.json"), "utf8");
    return /** @type {{ readonly results: object }} */ (JSON.parse(text)).results;
  });
  const isClean = (/** @type {string} */ said) => !/❌|⚠|warning/i.test(said);
  const isAccepted = (/** @type {string} */ said) =>
    isClean(said) && said.includes("Submission metrics validation successful");
  const checks = {
    "verify-trajs passes": verified.isDone && verified.said.includes("All files passed all checks"),
    "prepare passes": made.isDone && isClean(made.said) && made.said.includes("Submission prepared successfully"),
    "validate accepts ours": isAccepted(validated[0]?.said ?? ""),
    "validate accepts what prepare made of our file": isAccepted(validated[1]?.said ?? ""),
    "our figures are those of prepare": isDeepStrictEqual(results[0], results[1]),
  };
  for (const [what, holds] of Object.entries(checks)) process.stdout.write(`${holds ? "yes" : "NO "} ${what}\n`);
  process.stdout.write(`Figures of ${trials} trials: ${JSON.stringify(results[0])}\n`);
  return Object.values(checks).every(Boolean);
}
