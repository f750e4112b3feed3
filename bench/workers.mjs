// Several processes for one run: turns per CPU-second of a worker with 1, 2 and 4 of them, and the
// coordinator's cost per episode, compared with one process that does all the work. Episodes of
// retail or the bookshop against a canned server; starts are excluded. CPU counts and wall times do
// not: the machine may be busy.
// Run: npm run bench -- workers [most processes] [nats address] [episodes of a task]; without an
// address the workers are forked children
//   npm run bench -- workers auto      runs of different sizes with --processes auto beside one process, interleaved

import { execFileSync, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rollout } from "../dist/index.js";
import { machine, spread } from "./lib/measure.mjs";
import { goldServerReplies, loadWorld, startServer } from "./lib/prepared-episodes.mjs";

const [first = "4", second, third] = process.argv.slice(2);
const comparesAuto = first === "auto";
const most = Number(first);
const queue = second?.includes("://") ? second : null;
const groupSize = Number((queue === null ? second : third) ?? 20);
/** Number of pairs of runs, with and without `auto`. */
const pairs = 3;
const program = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));
/** Clock ticks per second in /proc/<pid>/stat. */
const ticksPerSecond = 100;

const world = await loadWorld();
const server = await startServer(goldServerReplies(world), { record: false });
const folder = await mkdtemp(join(tmpdir(), "bench-workers-"));
const lines = join(folder, "lines.txt");
await writeFile(lines, "Hi, it is about my order.\nPlease go on.\n###STOP###\n");

/** Process ids of the workers; searching for them costs more than an episode. */
let pids = [];

/** CPU seconds of this process's workers so far. */
function workersCpu() {
  if (pids.length === 0) {
    const name = queue === null ? "worker-process" : "main.js worker";
    const list = execFileSync("pgrep", ["-P", String(process.pid), "-f", name], { encoding: "utf8" });
    pids = list.trim().split("\n");
  }
  return cpuOf(pids);
}

/** CPU seconds of the one broker on this machine; `null` if there is none, or there are several. */
function brokerCpu() {
  try {
    const found = execFileSync("pgrep", ["-x", "nats-server"], { encoding: "utf8" }).trim().split("\n");
    return found.length === 1 ? cpuOf(found) : null;
  } catch {
    return null;
  }
}

function cpuOf(processes) {
  const ticks = processes.map((pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, one) => sum + one, 0) / ticksPerSecond;
}

const preparedRun = (name, episodes) => ({
  ...world.settings,
  tasks: `0-${world.tasks.length - 1}`,
  groupSize: episodes,
  model: world.modelFolder,
  engine: "sglang",
  url: `http://127.0.0.1:${server.port}`,
  user: "scripted",
  userLines: lines,
  concurrency: 256,
  out: join(folder, name),
});

/** Starts workers of the queue, which take jobs from now on. */
function startWorkers(processes, address) {
  const flags = ["--queue", address, "--dir", folder, "--capacity", String(Math.ceil(256 / processes))];
  return Array.from({ length: processes }, (_, index) => {
    const name = ["--name", `worker-${processes}-${index + 1}`];
    return spawn(process.execPath, [program, "worker", ...flags, ...name], { stdio: ["ignore", "ignore", 2] });
  });
}

/** Measures the second half of the episodes, when every process is warm. */
async function measure(processes) {
  const seen = [];
  pids = [];
  const isAlone = processes === 1;
  const address = isAlone || queue === null ? null : `${queue.replace(/\/$/, "")}/bench-${process.pid}-${processes}`;
  const children = address === null ? [] : startWorkers(processes, address);
  const look = (totals) => {
    const workers = isAlone ? 0 : workersCpu();
    const { user, system } = process.cpuUsage();
    const { turns, episodesFinished: episodes } = totals;
    seen.push({ turns, episodes, own: (user + system) / 1e6, workers, broker: address === null ? null : brokerCpu() });
  };
  let current = null;
  const total = 115 * groupSize;
  const timer = setInterval(() => {
    const totals = current?.();
    if (totals !== undefined && totals.episodesFinished >= total / 2 && totals.episodesFinished < total) look(totals);
  }, 200);
  await rollout({
    ...preparedRun(`run-${processes}`, groupSize),
    ...(address === null ? { processes } : { queue: address }),
    onEvent: (event) => {
      if (event.type === "progress") current = event.totals;
      if (event.type === "notice") process.stderr.write(`${event.message}\n`);
    },
  });
  clearInterval(timer);
  for (const child of children) {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
  }
  const [begin, end] = [seen[0], seen.at(-1)];
  const [turns, episodes] = [end.turns - begin.turns, end.episodes - begin.episodes];
  const own = end.own - begin.own;
  const broker = end.broker === null || begin.broker === null ? null : ((end.broker - begin.broker) * 1e6) / episodes;
  return {
    turnsPerCpu: turns / (isAlone ? own : end.workers - begin.workers),
    ownUs: (own * 1e6) / episodes,
    brokerUs: broker,
  };
}

/** Wall-clock seconds of a run with its start, which is the cost of `auto`. */
async function seconds(name, episodes, processes) {
  const began = performance.now();
  await rollout({ ...preparedRun(name, episodes), processes });
  return (performance.now() - began) / 1000;
}

async function compareAuto() {
  await seconds("warm", 2, 1);
  for (const episodes of [1, 4, 10, 30]) {
    const ratios = [];
    for (let pair = 0; pair < pairs; pair++) {
      const name = `auto-${episodes}-${pair}`;
      const order = pair % 2 === 0 ? [1, "auto"] : ["auto", 1];
      const took = new Map();
      for (const processes of order) took.set(processes, await seconds(`${name}-${processes}`, episodes, processes));
      ratios.push(took.get("auto") / took.get(1));
    }
    const forked = Math.min(availableParallelism() - 1, Math.floor((115 * episodes) / 1024), 4);
    console.log(
      `${String(115 * episodes).padStart(5)} episodes        --processes auto (${Math.max(1, forked)}) takes ${spread(ratios, 2)} times what one process takes`,
    );
  }
}

try {
  console.log(`machine   ${machine()}`);
  console.log(`command   npm run bench -- workers ${process.argv.slice(2).join(" ")}`);
  if (comparesAuto) await compareAuto();
  else {
    const alone = await measure(1);
    console.log(
      `one process           ${alone.turnsPerCpu.toFixed(0)} turns a CPU-second, ${alone.ownUs.toFixed(0)} us an episode`,
    );
    for (let processes = 2; processes <= most; processes *= 2) {
      const { turnsPerCpu, ownUs, brokerUs } = await measure(processes);
      const share = (turnsPerCpu / alone.turnsPerCpu).toFixed(2);
      const broker = brokerUs === null ? "" : `; broker ${brokerUs.toFixed(0)} us a job`;
      console.log(
        `${processes} workers             ${turnsPerCpu.toFixed(0)} turns a CPU-second of a worker: ${share} of one process (target: 0.9); ` +
          `coordinator ${ownUs.toFixed(0)} us an episode (target: at most 500)${broker}`,
      );
    }
  }
} finally {
  server.close();
  await rm(folder, { recursive: true });
}
