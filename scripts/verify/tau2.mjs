// `npm run verify -- tau2`: 100 conversations over the worlds of τ²-bench, written as upstream's files and scored again by upstream's own
// evaluator, from a checkout named by TAU2_REPO. Rewards, breakdowns and every check must be equal. The judge of assertions in words is
// a constant on both sides: what a model says is not compared.

import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { join } from "node:path";

import { loadTau2Data, tau2ResultsText } from "../../dist/environments/tau2-bench/index.js";
import { root } from "../run-command.mjs";
import { CannotVerify, makeEnvironment, outputOf, versionOf } from "./python.mjs";
import { simulate } from "./tau2-simulations.mjs";

/** What the reference imports, on the text side. */
const packages = [
  ...["pydantic==2.12.4", "litellm==1.82.6", "docstring-parser==0.17.0", "loguru==0.7.3", "deepdiff==8.6.1"],
  ...["addict==2.4.0", "PyYAML==6.0.3", "toml==0.10.2", "python-dotenv", "tenacity", "pandas", "psutil", "rich"],
  ...["tabulate", "fastapi", "uvicorn", "typer", "requests", "httpx", "numpy", "rank-bm25", "scipy"],
];

/** How many conversations of a domain, half of them with a judge that says yes. */
const counts = { mock: 20, retail: 26, airline: 14, telecom: 40 };

/** @returns {Promise<number>} An exit code. */
export async function verifyTau2() {
  const checkout = process.env["TAU2_REPO"] ?? "";
  if (checkout === "" || !existsSync(join(checkout, "src", "tau2"))) {
    throw new CannotVerify(
      "Cannot verify tau2: TAU2_REPO names no checkout of tau2-bench; clone it, and set TAU2_REPO.",
    );
  }
  const { bin } = makeEnvironment({ name: "tau2", packages, oldest: 11 });
  const work = join(root, "build", "verify", "tau2");
  mkdirSync(work, { recursive: true });
  /** @type {{ path: string, verdict: boolean, played: Awaited<ReturnType<typeof simulate>>[] }[]} */
  const files = [];
  for (const [domain, count] of Object.entries(counts)) {
    const data = await loadTau2Data({ domain, folder: checkout });
    const tasks = await data.tasks("base");
    for (const verdict of [true, false]) {
      const played = [];
      for (let at = Number(verdict); at < count; at += 2) {
        const options = { at: (at - Number(verdict)) / 2 + 5 * Number(verdict), seed: 1000 + at, verdict };
        played.push(await simulateGraded(data, tasks, options));
      }
      const facts = { isSolo: false, trials: 1, maxSteps: 200, maxErrors: 10, seed: 300, agentModel: "scripted", userModel: "scripted" }; // prettier-ignore
      const path = join(work, `${domain}-${verdict}.json`);
      writeFileSync(path, tau2ResultsText(data, played, facts));
      files.push({ path, verdict, played });
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
  /** @type {Map<string, number>} */
  const endings = new Map();
  /** @type {Map<string, number>} */
  const rewards = new Map();
  for (const [index, { path, played }] of files.entries()) {
    const theirs = /** @type {object[]} */ (JSON.parse(lines[index] ?? "[]"));
    const written = /** @type {{ simulations: { reward_info: object }[] }} */ (JSON.parse(readFileSync(path, "utf8")));
    for (const [at, { simulation, variant }] of played.entries()) {
      const ours = comparable(written.simulations[at]?.reward_info ?? {});
      const their = comparable(theirs[at] ?? {});
      endings.set(simulation.reason, (endings.get(simulation.reason) ?? 0) + 1);
      const reward = String(simulation.reward.reward);
      rewards.set(reward, (rewards.get(reward) ?? 0) + 1);
      if (isDeepStrictEqual(ours, their)) continue;
      different++;
      process.stdout.write(`DIFFERENT ${simulation.id} (${variant}, task ${simulation.taskId})\n  ours   ${JSON.stringify(ours)}\n  theirs ${JSON.stringify(their)}\n`); // prettier-ignore
    }
  }
  const total = files.reduce((sum, { played }) => sum + played.length, 0);
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
  return different === 0 && lines.length === files.length ? 0 : 1;
}

/**
 * The first simulation, by seed, that can be graded: where an assertion of a mock task raises, the reference raises for the whole file.
 *
 * @param {Parameters<typeof simulate>[0]} data
 * @param {Parameters<typeof simulate>[1]} tasks
 * @param {Parameters<typeof simulate>[2]} options
 */
async function simulateGraded(data, tasks, options) {
  for (let attempt = 0; attempt < 20; attempt++) {
    try {
      return await simulate(data, tasks, { ...options, seed: options.seed + 10_000 * attempt });
    } catch (error) {
      if (!(error instanceof Error) || !("pythonType" in error)) throw error;
    }
  }
  throw new Error("No simulation could be graded.");
}

/**
 * Without sentences of justification, and with an action or assertion by its name: the reference adds defaults to them.
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
