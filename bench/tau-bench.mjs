// Cost of a tau-bench episode without model and user: reset, gold actions, grade over the tasks of
// the test split, warm (gold end states known) and cold; the byte-exact digest; memory of a live
// episode; loading. The Python reference needs 0.27 s of CPU for the same retail episode, 0.66 s
// for an airline one (../shared/facts/tau-bench-python-costs.md). Without ../shared, and with
// BENCH_WORLD=bookshop, the same for the bookshop's validation tasks, which have no Python to
// compare with.
// Run: npm run bench -- tau-bench [rounds]

import { fileURLToPath } from "node:url";

import { loadTauBench, tauBenchDomains, tauBenchSource } from "../dist/environments/tau-bench/index.js";
import { cpuOf, machine, median, reportRows, spread } from "./lib/measure.mjs";
import { loadWorld, worldName } from "./lib/prepared-episodes.mjs";

const folder = fileURLToPath(new URL("../../shared/tau-bench", import.meta.url));
const rounds = Number(process.argv[2] ?? 40);
const pythonSeconds = { retail: 0.27, airline: 0.66 };

/** Runs every task once; returns the rewards, so that no task is skipped. */
function playAll(source, tasks) {
  let rewards = 0;
  for (const { task, actions, outputs } of tasks) {
    const environment = source.open(task);
    for (const output of outputs) environment.receiveUtterance?.(output);
    for (const { name, kwargs } of actions) void environment.call({ name, arguments: kwargs });
    rewards += environment.grade({ outcome: "completed" }).reward;
  }
  return rewards;
}

async function loadDomain(domain) {
  const loaded = await loadTauBench({ domain, folder });
  return { source: await tauBenchSource({ domain, folder }), tasks: loaded.tasks.get("test") };
}

async function loadBookshop() {
  const { environment, taskset, tasks } = await loadWorld();
  const toMap = ({ name, kwargs }) => ({ name, kwargs: new Map(Object.entries(kwargs)) });
  return {
    source: environment,
    tasks: tasks.map(({ actions }, index) => ({ task: taskset.task(index), actions: actions.map(toMap), outputs: [] })),
  };
}

async function benchDomain(domain) {
  const isOwn = domain === "bookshop";
  const loading = await cpuOf(() => (isOwn ? loadBookshop() : loadDomain(domain)));
  const { source, tasks } = loading.result;
  const perTask = (cpuUs) => cpuUs / tasks.length;

  const first = await cpuOf(() => playAll(source, tasks));
  // Our gold actions send no messages, which some tasks require.
  if (isOwn ? first.result === 0 : first.result !== tasks.length)
    throw new Error(`Only ${first.result} of ${tasks.length} gold episodes earned 1.`);
  const warm = [];
  const resets = [];
  for (let round = 0; round < rounds; round++) {
    const { result, cpuUs } = await cpuOf(() => playAll(source, tasks));
    if (result !== first.result) throw new Error("A warm round earned less than the first.");
    warm.push(perTask(cpuUs));
    const opened = await cpuOf(() => tasks.map(({ task }) => source.open(task)));
    resets.push(perTask(opened.cpuUs));
    if (opened.result.length !== tasks.length) throw new Error("An episode was not opened.");
  }

  const worlds = tasks.map(({ task, actions }) => {
    const environment = source.open(task);
    for (const { name, kwargs } of actions) void environment.call({ name, arguments: kwargs });
    return environment;
  });
  const digests = isOwn ? [0] : [];
  const seen = new Set();
  const digestRounds = isOwn ? 0 : Math.min(rounds, 10);
  for (let round = 0; round < digestRounds; round++) {
    const { cpuUs } = await cpuOf(() => worlds.forEach((environment) => seen.add(environment.digest())));
    digests.push(perTask(cpuUs));
  }

  const live = 20_000;
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const episodes = Array.from({ length: live }, (_, index) => {
    const { task, actions } = tasks[index % tasks.length];
    const environment = source.open(task);
    for (const { name, kwargs } of actions) void environment.call({ name, arguments: kwargs });
    return environment;
  });
  globalThis.gc?.();
  const bytes = (process.memoryUsage().heapUsed - before) / episodes.length;

  const python = pythonSeconds[domain] * 1e6;
  console.log(`\n${domain}: ${tasks.length} tasks, ${rounds} rounds, CPU time: median (min to max)`);
  console.log(`  load tables and tasks          ${(loading.cpuUs / 1000).toFixed(0)} ms, once`);
  console.log(`  reset                          ${spread(resets)} us`);
  console.log(`  reset + gold actions + grade   ${spread(warm)} us an episode, warm`);
  console.log(
    `                                 ${perTask(first.cpuUs).toFixed(0)} us an episode, cold (first in the process)`,
  );
  if (!isOwn) {
    console.log(
      `  Python needs                   ${pythonSeconds[domain]} s: ${Math.round(python / median(warm))} times ours warm, ${Math.round(python / perTask(first.cpuUs))} times cold`,
    );
    console.log(`  byte-exact digest              ${spread(digests)} us (${seen.size} different states)`);
  }
  if (isOwn) {
    const figure = `${spread(warm, 0)} us; cold ${(perTask(first.cpuUs) / 1000).toFixed(1)} ms`;
    reportRows({ what: "bookshop: reset, gold actions, grade", figure, target: null, isMet: null });
  }
  if (domain === "retail") {
    reportRows({
      what: "retail: reset, gold actions, grade, against Python's 0.27 s",
      figure: `${spread(warm, 0)} us, ${Math.round(python / median(warm))} times less; cold ${(perTask(first.cpuUs) / 1000).toFixed(1)} ms, ${Math.round(python / perTask(first.cpuUs))} times`,
      target: "1,000 times, warm",
      isMet: python / median(warm) >= 1000,
    });
  }
  console.log(
    `  memory of a live episode       ${globalThis.gc === undefined ? "run node with --expose-gc" : `${(bytes / 1024).toFixed(1)} KiB with its gold actions done`}`,
  );
}

console.log(`${machine()}; node --expose-gc bench/tau-bench.mjs ${rounds}`);
for (const domain of worldName === "bookshop" ? ["bookshop"] : tauBenchDomains) await benchDomain(domain);
