// Cost of a τ²-bench episode without models: construction of the world, reference calls of both
// sides, grading, over the tasks of the base split; memory of a live episode. The reference's own
// Python is measured in the same run if TAU2_REPO names a checkout and TAU2_PYTHON a Python with
// its dependencies (`npm run verify -- tau2` makes one).
// Run: npm run bench -- tau2-bench [rounds] [episodes]

import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Conversation, evaluate, loadTau2Data, stopToken, Tau2World } from "../dist/environments/tau2-bench/index.js";
import { cpuOf, machine, median, spread } from "./lib/measure.mjs";

const rounds = Number(process.argv[2] ?? 20);
const pythonEpisodes = Number(process.argv[3] ?? 10);
const target = 100;
const root = fileURLToPath(new URL("..", import.meta.url));
const checkout = process.env["TAU2_REPO"] ?? "";
const folder = checkout === "" ? join(root, "..", "shared", "tau2-bench") : checkout;
const python = process.env["TAU2_PYTHON"] ?? join(root, "build", "verify", "tau2", "venv", "bin", "python");
const judge = async (_, assertions) => assertions.map((assertion) => ({ assertion, isMet: true, reason: "" }));

/** A conversation in which the reference solution is run up to its last message. */
function play(data, task) {
  const world = new Tau2World(data.world, { isSolo: false, createId: () => "B00000001" });
  const conversation = new Conversation(world, task);
  let calls = 0;
  const say = (content, call = null) => {
    const { speaker } = conversation.state;
    conversation.say({ role: speaker, content, toolCalls: call });
  };
  for (const { name, arguments: given, requestor } of task.criteria?.actions ?? []) {
    if (conversation.state.speaker !== requestor) say("Go on.");
    say(null, [{ id: String(calls++), name, arguments: given, requestor }]);
  }
  if (conversation.state.speaker === "user") say("And?");
  say(["Done.", ...(task.criteria?.communicated ?? [])].join(" "));
  return { conversation, end: () => say(stopToken) };
}

async function playAll(data, tasks) {
  let rewards = 0;
  for (const task of tasks) {
    const { conversation, end } = play(data, task);
    end();
    const { reward } = await evaluate(data, task, conversation.messages, { reason: "user_stop", judge });
    rewards += reward;
  }
  return rewards;
}

function pythonSeconds(domain) {
  if (checkout === "" || !existsSync(python)) return null;
  const script = join(root, "bench", "python", "tau2_episode.py");
  const ran = spawnSync(python, [script, checkout, domain, String(pythonEpisodes)], { encoding: "utf8" });
  if (ran.status !== 0) throw new Error(`The reference ended with code ${ran.status}:\n${ran.stderr.slice(-800)}`);
  const { seconds, reward, episodes } = JSON.parse(ran.stdout.trim().split("\n").at(-1));
  if (reward !== episodes) throw new Error(`Only ${reward} of ${episodes} of the reference's episodes earned 1.`);
  return seconds;
}

async function benchDomain(domain) {
  const data = await loadTau2Data({ domain, folder });
  const tasks = await data.tasks("base");
  const costs = [];
  let first = 0;
  for (let round = 0; round <= rounds; round++) {
    const { result, cpuUs } = await cpuOf(() => playAll(data, tasks));
    if (result !== tasks.length) throw new Error(`Only ${result} of ${tasks.length} reference solutions earned 1.`);
    if (round === 0) first = cpuUs / tasks.length;
    else costs.push(cpuUs / tasks.length);
  }
  const live = 5000;
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const episodes = Array.from({ length: live }, (_, index) => play(data, tasks[index % tasks.length]));
  globalThis.gc?.();
  const kilobytes = (process.memoryUsage().heapUsed - before) / episodes.length / 1024;
  console.log(`\n${domain}: ${tasks.length} tasks, ${rounds} rounds, CPU time: median (min to max)`);
  console.log(`  world, reference calls, grading  ${spread(costs)} us an episode, warm; ${first.toFixed(0)} us cold`);
  console.log(`  memory of a live episode         ${kilobytes.toFixed(1)} KiB with its reference calls done`);
  const seconds = pythonSeconds(domain);
  if (seconds === null) {
    console.log("  the reference's Python           not here: TAU2_REPO or its environment is missing");
    return true;
  }
  const [warm, cold] = [(seconds * 1e6) / median(costs), (seconds * 1e6) / first];
  console.log(
    `  the reference's Python           ${(seconds * 1000).toFixed(0)} ms an episode, ${pythonEpisodes} episodes: ${Math.round(warm)} times ours warm, ` +
      `${Math.round(cold)} times cold; at least ${target} times: ${warm >= target ? "yes" : "NO"}`,
  );
  return warm >= target;
}

if (!existsSync(folder)) {
  console.log(
    "Skipped: it plays the tasks of τ²-bench, from ../shared or a checkout that TAU2_REPO names; for our own world see tau-bench.",
  );
  process.exit(0);
}
console.log(`${machine()}; node --expose-gc bench/tau2-bench.mjs ${rounds} ${pythonEpisodes}`);
for (const domain of ["telecom", "retail"]) if (!(await benchDomain(domain))) process.exitCode = 1;
