// `npm run verify -- real-model -- benchmarks`: the 0.5B model plays five tasks of tau-bench's
// retail shop and five of tau2-bench's telecom to their ends. The same model is also the simulated
// user of the retail tasks and the judge of whose fault failures are, and a program with the AI SDK
// calls it, all three through `gateway`, whose sessions are recorded like episodes. The data comes
// from TAU_BENCH_DATA and TAU2_BENCH_DATA, or from ../shared. A run that was stopped resumes.

import { spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

import { root } from "../../run-command.mjs";
import { installPackages } from "../npm.mjs";
import { installLlama } from "../peers.mjs";
import { CannotVerify } from "../python.mjs";
import { countRun } from "./count-run.mjs";
import { freePorts } from "../servers.mjs";

const program = join(root, "dist", "cli", "main.js");
const packages = { ai: "7.0.173", "@ai-sdk/openai-compatible": "3.0.92" };
const tasks = 5;

/**
 * @param {import("../real-model.mjs").Given} given
 * @returns {Promise<number>} The exit code.
 */
export async function verifyRealBenchmarks({ gguf, folder, quick }) {
  const install = installLlama();
  const model = await gguf("0.5B");
  const clients = await installPackages("verify-real-model", packages);
  cpSync(join(root, "scripts", "verify", "gateway-clients", "ai-sdk-call.mjs"), join(clients, "ai-sdk-call.mjs"));
  const last = quick ? 0 : tasks - 1;
  const served = join(folder, quick ? "quick-gateway" : "gateway");
  const gateway = await startGateway(install, ["--gguf", model, "--out", served, "--quiet"]);
  const { url } = gateway;
  /** Flags of a model that answers through the gateway. @param {"user" | "judge"} name */
  const role = (name) => [
    `--${name}-model`,
    "policy",
    `--${name}-url`,
    `${url}/v1`,
    `--${name}-api-key-env`,
    "ROLE_KEY",
  ];
  const shared = ["--gguf", model, "--strategy", "act", "--max-new-tokens", "128", "--group-size", "1", "--seed", "1"];
  /** @type {string[]} */
  const problems = [];
  try {
    for (const [name, command, flags] of /** @type {const} */ ([
      [
        "retail",
        "eval",
        [
          "--env",
          "tau-bench/retail",
          "--data",
          dataOf("TAU_BENCH_DATA", "tau-bench"),
          "--user",
          "llm",
          ...role("user"),
          ...role("judge"),
        ],
      ],
      [
        "telecom",
        "rollout",
        ["--env", "tau2-bench/telecom", "--data", dataOf("TAU2_BENCH_DATA", "tau2-bench"), "--user", "rules"],
      ],
    ])) {
      const out = join(folder, quick ? `quick-${name}` : name);
      process.stdout.write(`\n=== ${name}\n`);
      const limits = ["--max-turns", quick ? "4" : "20", "--tasks", `0-${last}`, "--out", out];
      const given = existsSync(join(out, "run.json")) ? ["--resume", out] : [...flags, ...shared, ...limits];
      const { status } = spawnSync(process.execPath, [program, command, ...given], {
        cwd: install,
        env: { ...process.env, ROLE_KEY: name },
        stdio: ["ignore", "inherit", "inherit"],
      });
      if (status !== 0) problems.push(`${name} ended with code ${status}`);
      const counted = await countRun(out);
      process.stdout.write(counted.text);
      problems.push(...counted.problems.map((problem) => `${name}: ${problem}`));
    }
    process.stdout.write("\n=== a program with the AI SDK\n");
    const call = spawnSync(process.execPath, [join(clients, "ai-sdk-call.mjs"), `${url}/v1`], {
      env: { HOME: clients, PATH: process.env["PATH"] ?? "" },
      stdio: ["ignore", "inherit", "inherit"],
    });
    if (call.status !== 0) problems.push(`the program ended with code ${call.status}`);
  } finally {
    gateway.child.kill("SIGINT");
    await gateway.ended;
  }
  process.stdout.write("\n=== sessions of the gateway\n");
  const counted = await countRun(served);
  process.stdout.write(counted.text);
  problems.push(...counted.problems.map((problem) => `gateway: ${problem}`));
  if (problems.length > 0) process.stdout.write(`Failed: ${problems.join("; ")}.\n`);
  return problems.length === 0 ? 0 : 1;
}

/**
 * Resolves when the gateway answers.
 *
 * @param {string} cwd @param {readonly string[]} flags
 */
async function startGateway(cwd, flags) {
  const [port = 0] = await freePorts(1);
  const url = `http://127.0.0.1:${port}`;
  const child = spawn(process.execPath, [program, "gateway", ...flags, "--listen", `127.0.0.1:${port}`], {
    cwd,
    stdio: ["ignore", "inherit", "inherit"],
  });
  const ended = new Promise((resolve) => child.on("exit", resolve));
  while (child.exitCode === null) {
    const answer = await fetch(`${url}/health`).catch(() => null);
    if (answer?.ok === true) return { child, ended, url };
    await delay(200);
  }
  throw new CannotVerify(`Cannot verify: the gateway ended with code ${child.exitCode}, see above.`);
}

/** @param {string} variable @param {string} name */
function dataOf(variable, name) {
  const folder = process.env[variable] ?? join(root, "..", "shared", name);
  if (!existsSync(folder))
    throw new CannotVerify(`Cannot verify: the data of ${name} was not found; set ${variable} to its folder.`);
  return folder;
}
