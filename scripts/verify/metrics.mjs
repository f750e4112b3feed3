// `npm run verify -- metrics`: the curves of a rollout, killed in the middle and resumed, and of a
// training, continued, as stored by W&B's own program, an MLflow server and a trackio server; logs
// of inspect and ATIF as read by the programs of those formats. All from PyPI, on 127.0.0.1, each
// with its own home and no variables of this shell.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";

import { root } from "../run-command.mjs";
import { makeEnvironment } from "./python.mjs";

const cli = join(root, "dist", "cli", "main.js");

/** @returns {Promise<number>} An exit code. */
export async function verifyMetrics() {
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-metrics-"));
  const home = join(work, "home");
  mkdirSync(home);
  /** @type {Record<string, string>} */
  const env = { HOME: home, PATH: process.env["PATH"] ?? "", PYTHONUNBUFFERED: "1", WANDB_MODE: "offline", MLFLOW_DISABLE_TELEMETRY: "true", DO_NOT_TRACK: "true", TRACKIO_DIR: join(work, "trackio") }; // prettier-ignore
  /** @type {import("node:child_process").ChildProcess[]} */
  const servers = [];
  /** @type {string[]} */
  const failures = [];
  /** @type {(name: string, holds: boolean, found: unknown) => void} */
  const check = (name, holds, found) => {
    process.stdout.write(`${holds ? "ok    " : "FAILED"}  ${name}\n`);
    if (!holds) failures.push(`${name}: ${JSON.stringify(found)?.slice(0, 2000)}`);
  };
  try {
    const wandb = makeEnvironment({ name: "metrics-wandb", packages: ["wandb==0.31.0"] });
    const mlflow = makeEnvironment({ name: "metrics-mlflow", packages: ["mlflow==3.17.2"] });
    const trackio = makeEnvironment({ name: "metrics-trackio", packages: ["trackio==0.43.0"] });
    const [mlflowPort, trackioPort] = [await freePort(), await freePort()];
    const url = `http://127.0.0.1:${mlflowPort}`;
    const show = `import trackio; trackio.show(open_browser=False, block_thread=True, server_port=${trackioPort})`;
    const [, token = ""] =
      (await serve(trackio.bin("python"), ["-c", show], { env, servers, until: /write_token=([\w-]+)/ })) ?? [];
    const flags = ["--engine", "embedded", "--tasks", "0-15", "--group-size", "8", "--concurrency", "16", "--quiet"];
    const metrics = `tensorboard,wandb,mlflow:${url},trackio:http://127.0.0.1:${trackioPort}`;
    const start = (/** @type {string[]} */ argv) =>
      spawn(process.execPath, [cli, "rollout", ...argv], { cwd: work, env: { ...env, TRACKIO_WRITE_TOKEN: token } });
    await serve(mlflow.bin("mlflow"), ["server", "--host", "127.0.0.1", "--port", String(mlflowPort), "--workers", "1", "--backend-store-uri", `sqlite:///${join(work, "mlflow.db")}`, "--artifacts-destination", join(work, "artifacts")], { env: { ...env, PATH: `${mlflow.folder}/venv/bin:${env["PATH"]}` }, servers, until: /Creating initial/ }); // prettier-ignore
    await untilAnswers(`${url}/health`);
    const first = start([...flags, "--metrics", metrics, "--out", "run"]);
    await until(() => readdirSync(join(work, "run")).includes("mlflow.json"), 120_000);
    first.kill("SIGKILL");
    const { code, text } = await ended(start(["--resume", "run"]));
    check("a run that was killed resumes and ends", code === 0, text);
    const memory = /** @type {{ runId: string }} */ (parsed(readFileSync(join(work, "run", "mlflow.json"), "utf8")));
    const history = await mlflowHistory(url, memory.runId);
    const steps = history.map(({ step }) => step);
    check("MLflow has each step once, in order, to the last episode", isRising(steps) && steps.at(-1) === 128, steps);
    const listed = spawnSync(trackio.bin("trackio"), ["get", "metric", "--project", "trainable-agents", "--run", "run", "--metric", "reward/mean", "--json"], { env, encoding: "utf8" }); // prettier-ignore
    const values = /** @type {{ values: { step: number, value: number }[] }} */ (JSON.parse(listed.stdout)).values;
    check("trackio has each step once, with MLflow's values", isRising(values.map(({ step }) => step)) && agree(values, history), { values, history }); // prettier-ignore
    const files = readdirSync(join(work, "run", "wandb"));
    const last = files.map((file) => spawnSync(wandb.bin("wandb"), ["leet", "inspect", "--summary", join(work, "run", "wandb", file)], { env, encoding: "utf8" }).stdout).toSorted((a, b) => stepOf(a) - stepOf(b)).at(-1) ?? ""; // prettier-ignore
    check("W&B's own program reads the offline run to its end", stepOf(last) === 128 && /state +finished/.test(last) && last.includes("reward/pass_rate"), last); // prettier-ignore
    const dry = spawnSync(wandb.bin("wandb"), ["sync", "--dry-run", join(work, "run", "wandb", files[0] ?? "")], { env, encoding: "utf8" }); // prettier-ignore
    check("wandb sync would upload it", dry.status === 0 && /run-\w+\.wandb/.test(dry.stdout + dry.stderr), dry);
    const small = [
      "--model",
      "bookshop-nano",
      "--threads",
      "1",
      "--groups",
      "2",
      "--final-tasks",
      "14",
      "--eval-every",
      "0",
    ];
    const train = (/** @type {string[]} */ ...argv) =>
      spawnSync(process.execPath, [cli, "train", ...argv], { cwd: work, env: { ...env, TRACKIO_WRITE_TOKEN: token }, encoding: "utf8" }); // prettier-ignore
    const begun = train(...small, "--steps", "2", "--metrics", metrics, "--out", "training");
    const continued = train("--resume", "training", "--steps", "3");
    check("a training is watched, and continues", begun.status === 0 && continued.status === 0, [begun.stderr, continued.stderr]); // prettier-ignore
    const trained = /** @type {{ runId: string }} */ (
      parsed(readFileSync(join(work, "training", "mlflow.json"), "utf8"))
    );
    const rates = await mlflowHistory(url, trained.runId, "pass_rate");
    const [header = "", ...rows] = readFileSync(join(work, "training", "metrics.csv"), "utf8")
      .trim()
      .split("\n");
    const place = header.split(",").indexOf("pass_rate");
    const written = rows.map((row) => Number(row.split(",")[place]));
    check("MLflow has the steps of metrics.csv", String(rates.map(({ value }) => value)) === String(written) && rows.length === 3, { rates, written }); // prettier-ignore
    const offline = readdirSync(join(work, "training", "wandb")).map((file) => spawnSync(wandb.bin("wandb"), ["leet", "inspect", "--summary", join(work, "training", "wandb", file)], { env, encoding: "utf8" }).stdout); // prettier-ignore
    check("W&B's own program reads both parts of it", offline.length === 2 && offline.every((summary) => /state +finished/.test(summary) && summary.includes("pass_rate")), offline); // prettier-ignore
    verifyLogs(work, { env, check });
    if (failures.length > 0) process.stdout.write(`\n${failures.join("\n\n")}\n`);
    return failures.length === 0 ? 0 : 1;
  } finally {
    for (const server of servers) server.kill("SIGTERM");
    rmSync(work, { recursive: true, force: true, maxRetries: 5 });
  }
}

/**
 * Checks the logs that `export` writes for inspect and Harbor, read by their packages.
 *
 * @param {string} work
 * @param {{ env: Record<string, string>, check: (name: string, holds: boolean, found: unknown) => void }} options
 */
function verifyLogs(work, { env, check }) {
  const logs = makeEnvironment({
    name: "logs",
    packages: ["inspect_ai==0.3.285", "atif==1.8.0", "junitparser==5.0.3"],
  });
  const ours = (/** @type {string[]} */ ...argv) =>
    spawnSync(process.execPath, [cli, ...argv], { cwd: work, env, encoding: "utf8" });
  ours("export", "run", "--format", "inspect", "--output", "log.json");
  ours("export", "run", "--format", "atif", "--output", "atif.jsonl");
  ours("eval", "--from", "run", "--report", "junit:eval.xml,markdown:eval.md");
  writeFileSync(join(work, "read.py"), readers);
  const read = spawnSync(logs.bin("python"), ["read.py"], { cwd: work, env, encoding: "utf8" });
  check("inspect_ai reads the log, atif validates every trajectory, junitparser the report", read.status === 0, read);
  const found = read.status === 0 ? read.stdout : '{"inspect": [], "atif": [], "junit": []}';
  const { inspect, atif, junit } = /** @type {{ inspect: number[], atif: number[], junit: number[] }} */ (
    parsed(found)
  );
  check("with the same rewards", inspect.length === 128 && String(inspect) === String(atif), found);
  check(
    "JUnit counts what failed",
    String(junit) === `128,${inspect.filter((reward) => reward !== 1).length},0`,
    junit,
  );
  spawnSync(logs.bin("inspect"), ["log", "convert", "--to", "eval", "--output-dir", "converted", "log.json"], { cwd: work, env }); // prettier-ignore
  const compared = ours("compare", "run", "log.json", "atif.jsonl", "converted/log.eval", "--json");
  const text = compared.status === 0 ? compared.stdout : '{"pairs": []}';
  const { pairs } = /** @type {{ pairs: { tasks: number, byId: number, reward: { mean: number } }[] }} */ (
    parsed(text)
  );
  const isSame = pairs.every(({ tasks, byId, reward }) => tasks === 16 && byId === 0 && reward.mean === 0);
  check("what inspect converted is read back as the run that it was", pairs.length === 3 && isSame, compared);
}

/** @param {string} text @returns {unknown} */
export function parsed(text) {
  return JSON.parse(text);
}

const readers = `
import json
from atif import Trajectory
from inspect_ai.log import read_eval_log
from junitparser import JUnitXml
log = read_eval_log("log.json")
trajectories = [Trajectory.model_validate_json(line) for line in open("atif.jsonl", encoding="utf8")]
report = JUnitXml.fromfile("eval.xml")
print(json.dumps({
    "inspect": [sample.scores["reward"].value for sample in log.samples],
    "atif": [one.extra["reward"] for one in trajectories],
    "junit": [report.tests, report.failures, report.errors],
}))
`;

/** @param {readonly number[]} steps */
function isRising(steps) {
  return steps.length > 2 && steps.every((step, at) => at === 0 || step > (steps[at - 1] ?? 0));
}

/**
 * True if two curves agree at the steps that both have.
 *
 * @typedef {{ step: number, value: number }[]} Curve @param {Curve} a @param {Curve} b
 */
function agree(a, b) {
  const known = new Map(b.map(({ step, value }) => [step, value]));
  return a.every(({ step, value }) => Math.abs((known.get(step) ?? value) - value) < 1e-9);
}

/** @param {string} text */
function stepOf(text) {
  return Number(/^step +(\d+)$/m.exec(text)?.[1] ?? -1);
}

/** @param {string} url @param {string} run @returns {Promise<{ step: number, value: number }[]>} */
async function mlflowHistory(url, run, key = "reward/mean") {
  const reply = await fetch(`${url}/api/2.0/mlflow/metrics/get-history?run_id=${run}&metric_key=${key}`);
  return /** @type {{ metrics: { step: number, value: number }[] }} */ (await reply.json()).metrics;
}

/** @returns {Promise<number>} */
export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {import("node:net").AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

/**
 * Starts a server and waits for the output that announces that it is ready.
 *
 * @param {string} program
 * @param {readonly string[]} argv
 * @param {{ env: Record<string, string>, servers: import("node:child_process").ChildProcess[], until: RegExp }} options
 * @returns {Promise<RegExpExecArray | null>}
 */
export async function serve(program, argv, { env, servers, until: pattern }) {
  const child = spawn(program, argv, { env, stdio: ["ignore", "pipe", "pipe"] });
  servers.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => (said += text));
  await until(() => pattern.test(said) || child.exitCode !== null, 600_000);
  if (!pattern.test(said)) throw new Error(`"${program}" does not serve: ${said.slice(-2000)}`);
  return pattern.exec(said);
}

/** @param {string} url */
export async function untilAnswers(url) {
  for (let tries = 0; tries < 1200; tries++) {
    const reply = await fetch(url).catch(() => null);
    if (reply?.ok === true) return;
    await wait(500);
  }
  throw new Error(`"${url}" does not answer.`);
}

/** @param {() => boolean} holds @param {number} limitMs */
async function until(holds, limitMs) {
  for (let waited = 0; waited < limitMs; waited += 100) {
    try {
      if (holds()) return;
    } catch {
      // Not there yet.
    }
    await wait(100);
  }
}

/** @param {import("node:child_process").ChildProcess} child @returns {Promise<{ code: number | null, text: string }>} */
function ended(child) {
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (part) => (text += part));
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, text })));
}
