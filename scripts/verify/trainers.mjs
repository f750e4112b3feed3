// `npm run verify -- trainers`: the plug-ins for trainers, each run by the trainer itself on the
// CPU, with one of our models and the real service: TRL's GRPOTrainer, verl's agent loop, plain
// torch, the learner of real models, and slime if SLIME_REPO names a checkout of it (it is on no
// registry); and the learner of `train` compared with torch on the same rows. With --full torch
// trains for 12 minutes and must pass more of the held-out tasks, and the learner makes twelve
// steps for comparison with torch.

import { spawnSync } from "node:child_process";
import { join } from "node:path";

import { root } from "../run-command.mjs";
import { makeEnvironment, versionOf } from "./python.mjs";

const pinned = { torch: "2.13.0", transformers: "5.23.0", trl: "1.16.0", verl: "0.9.1" };
/** Packages that verl imports without declaring them. */
const further = ["httpx==0.28.1", "cachetools==6.2.2", "fastapi==0.165.0", "uvicorn==0.38.0"];
/** Packages of the learner of real models, beside torch and transformers. */
const ofRealModels = ["peft==0.21.2", "gguf==0.19.0"];
const checks = {
  trl: "check_trl",
  verl: "check_verl",
  torch: "check_torch",
  masks: "check_masks",
  model: "check_model",
  learner: "check_learner",
  slime: "check_slime",
};

/**
 * @param {{ readonly newest: boolean, readonly full: boolean }} options
 * @returns {Promise<number>} The exit code.
 */
export async function verifyTrainers({ newest, full }) {
  const names = Object.entries(pinned).map(([name, version]) => (newest ? name : `${name}==${version}`));
  const { bin } = makeEnvironment({
    name: newest ? "trainers-newest" : "trainers",
    packages: [...names, ...further, ...ofRealModels],
    // verl declares older versions.
    overrides: names.filter((name) => /^(torch|transformers)\b/.test(name)),
  });
  const python = bin("python");
  const versions = Object.keys(pinned).map((name) => `${name} ${versionOf(python, name)}`);
  process.stdout.write(`trainers: ${versions.join(", ")}\n`);
  const tests = join(root, "python", "tests");
  /** @type {string[]} */
  const failed = [];
  for (const [name, module] of Object.entries(checks)) {
    process.stdout.write(`\n=== ${name}\n`);
    if (name === "slime" && !process.env["SLIME_REPO"]) {
      process.stdout.write("skipped: SLIME_REPO names no checkout of slime, and slime is on no package registry\n");
      continue;
    }
    const { status } = spawnSync(python, ["-W", "ignore", "-m", "unittest", module], {
      cwd: join(tests, "trainers"),
      stdio: "inherit",
      env: {
        ...process.env,
        PYTHONPATH: [join(root, "python"), tests].join(process.platform === "win32" ? ";" : ":"),
        PYTHONDONTWRITEBYTECODE: "1",
        // Small matrices and two cores: more threads would only wait for each other.
        OMP_NUM_THREADS: "1",
        HF_HUB_OFFLINE: "1",
        TQDM_DISABLE: "1",
        TRL_EXPERIMENTAL_SILENCE: "1",
        TRAINING_MINUTES: full ? "12" : "0",
        LEARNER_STEPS: full ? "12" : "2",
      },
    });
    if (status !== 0) failed.push(name);
  }
  process.stdout.write(failed.length === 0 ? "\ntrainers: all ran\n" : `\ntrainers: failed: ${failed.join(", ")}\n`);
  return failed.length === 0 ? 0 : 1;
}
