// `npm run verify -- tau2`: 100 episodes over the worlds of τ²-bench, exported as upstream's files
// and scored again by upstream's own evaluator, from the checkout that TAU2_REPO names. Rewards,
// breakdowns and every check must be equal. The judge of assertions in natural language is a
// constant on both sides: the output of a model is not compared. Then upstream's `tau2 submit` reads
// a submission of ours.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { join } from "node:path";

import { loadTau2Data } from "../../dist/environments/tau2-bench/index.js";
import { exportRun } from "../../dist/index.js";
import { root } from "../run-command.mjs";
import { CannotVerify, makeEnvironment, outputOf, versionOf } from "./python.mjs";
import { playSimulations } from "./tau2-simulations.mjs";
import { verifySubmission } from "./tau2-submission.mjs";

/** Packages that the reference imports for text. */
const packages = [
  ...["pydantic==2.12.4", "litellm==1.82.6", "docstring-parser==0.17.0", "loguru==0.7.3", "deepdiff==8.6.1"],
  ...["addict==2.4.0", "PyYAML==6.0.3", "toml==0.10.2", "python-dotenv", "tenacity", "pandas", "psutil", "rich"],
  ...["tabulate", "fastapi", "uvicorn", "typer", "requests", "httpx", "numpy", "rank-bm25", "scipy"],
];

/**
 * Number of episodes of each domain, half of them with a judge that says yes. Simulations that
 * cannot be graded are excluded from the domain's file.
 */
const counts = { mock: 20, retail: 32, airline: 16, telecom: 40, "telecom-solo": 8 };

/**
 * @typedef {{ readonly reward: number }} Reward
 * @typedef {{ readonly simulations: readonly { readonly id: string, readonly task_id: string, readonly termination_reason: string, readonly reward_info: Reward }[] }} Written
 */

/** @returns {Promise<number>} An exit code. */
export async function verifyTau2() {
  const checkout = process.env["TAU2_REPO"] ?? "";
  if (checkout === "" || !existsSync(join(checkout, "src", "tau2"))) {
    throw new CannotVerify(
      "Cannot verify tau2: TAU2_REPO names no checkout of tau2-bench; clone it, and set TAU2_REPO.",
    );
  }
  const { bin } = makeEnvironment({ name: "tau2", packages, oldest: 11 });
  const work = join(root, "build", "verify", "tau2-simulations");
  rmSync(work, { recursive: true, force: true });
  mkdirSync(work, { recursive: true });
  /** @type {{ path: string, verdict: boolean }[]} */
  const files = [];
  for (const [name, count] of Object.entries(counts)) {
    const [domain = "", solo] = name.split("-");
    const data = await loadTau2Data({ domain, folder: checkout });
    for (const verdict of [true, false]) {
      const options = { folder: checkout, out: work, isSolo: solo !== undefined, verdict, seed: verdict ? 1000 : 2000 };
      const runs = await playSimulations(data, { ...options, count: count / 2 });
      const path = join(work, `${name}-${String(verdict)}.json`);
      await exportRun({ runs, format: "tau2", output: path });
      files.push({ path, verdict });
    }
  }
  const script = join(root, "scripts", "verify", "tau2_score.py");
  const scored = spawnSync(
    bin("python"),
    [script, checkout, ...files.flatMap(({ path, verdict }) => [path, String(verdict)])],
    {
      encoding: "utf8",
      maxBuffer: 64_000_000,
      env: { PATH: process.env["PATH"], HOME: work, LITELLM_LOCAL_MODEL_COST_MAP: "True" },
    },
  );
  if (scored.status !== 0) {
    process.stderr.write(`${scored.stderr.split("\n").slice(-20).join("\n")}\n`);
    return 1;
  }
  const lines = scored.stdout.split("\n").filter((line) => line.startsWith("["));
  let different = 0;
  let total = 0;
  /** @type {Map<string, number>} */
  const endings = new Map();
  /** @type {Map<string, number>} */
  const rewards = new Map();
  for (const [index, { path }] of files.entries()) {
    const theirs = /** @type {object[]} */ (JSON.parse(lines[index] ?? "[]"));
    const { simulations } = /** @type {Written} */ (JSON.parse(readFileSync(path, "utf8")));
    for (const [
      at,
      { id, task_id: taskId, termination_reason: reason, reward_info: reward },
    ] of simulations.entries()) {
      const ours = comparable(reward);
      const their = comparable(theirs[at] ?? {});
      total++;
      endings.set(reason, (endings.get(reason) ?? 0) + 1);
      rewards.set(String(reward.reward), (rewards.get(String(reward.reward)) ?? 0) + 1);
      if (isDeepStrictEqual(ours, their)) continue;
      different++;
      process.stdout.write(`DIFFERENT ${id} (task ${taskId})\n  ours   ${JSON.stringify(ours)}\n  theirs ${JSON.stringify(their)}\n`); // prettier-ignore
    }
  }
  const told = (/** @type {Map<string, number>} */ map) => [...map].map(([name, n]) => `${name} ${n}`).join(", ");
  const commit = spawnSync("git", ["-C", checkout, "rev-parse", "--short=12", "HEAD"], {
    encoding: "utf8",
  }).stdout.trim();
  process.stdout.write(
    `${total - different} of ${total} simulations scored equal by tau2-bench ${commit}: ` +
      `${Object.entries(counts)
        .map(([name, n]) => `${name} ${n}`)
        .join(", ")}; endings: ${told(endings)}; rewards: ${told(rewards)}\n` +
      `Python ${outputOf(bin("python"), "import platform; print(platform.python_version())")}, ` +
      `pydantic ${versionOf(bin("python"), "pydantic")}, litellm ${versionOf(bin("python"), "litellm")}\n`,
  );
  const isAccepted = await verifySubmission({ checkout, python: bin("python"), work });
  return isAccepted && different === 0 && total >= 100 && lines.length === files.length ? 0 : 1;
}

/**
 * A reward without its sentences of justification, and with actions and assertions reduced to their
 * names, because the reference adds defaults to them.
 *
 * @param {object} reward
 * @returns {unknown}
 */
function comparable(reward) {
  const text = JSON.stringify(reward, (key, /** @type {unknown} */ value) => {
    if (key === "justification") return undefined;
    if (typeof value !== "object" || value === null) return value;
    if (key === "action" && "action_id" in value) return value.action_id;
    if (key === "env_assertion" && "func_name" in value) return value.func_name;
    return value;
  });
  return JSON.parse(text);
}
