// Several processes for one run: turns per CPU-second of a worker with 1, 2 and 4 of them, and what the coordinator costs an episode,
// beside one process that does all. Real retail episodes (τ-bench from ../shared) against a canned server; starts are left out. CPU
// counts and wall times do not: the machine may be busy.
// Run: npm run bench -- workers [most processes] [episodes of a task]

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { rollout } from "../dist/index.js";
import { machine } from "./lib/measure.mjs";
import { goldServerReplies, loadRetail, startServer } from "./lib/retail-replay.mjs";

const most = Number(process.argv[2] ?? 4);
const groupSize = Number(process.argv[3] ?? 20);
const shared = fileURLToPath(new URL("../../shared/", import.meta.url));
/** Of /proc/<pid>/stat. */
const ticksPerSecond = 100;

const retail = await loadRetail();
const server = await startServer(goldServerReplies(retail), { record: false });
const folder = await mkdtemp(join(tmpdir(), "bench-workers-"));
const lines = join(folder, "lines.txt");
await writeFile(lines, "Hi, it is about my order.\nPlease go on.\n###STOP###\n");

/** Processes of the workers; looking for them costs more than an episode. */
let pids = [];

/** CPU seconds of this process's workers so far. */
function workersCpu() {
  if (pids.length === 0) {
    const list = execFileSync("pgrep", ["-P", String(process.pid), "-f", "worker-process"], { encoding: "utf8" });
    pids = list.trim().split("\n");
  }
  const ticks = pids.map((pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(fields[11]) + Number(fields[12]);
  });
  return ticks.reduce((sum, one) => sum + one, 0) / ticksPerSecond;
}

/** From half of the episodes on, when every process is warm, to the end. */
async function measure(processes) {
  const seen = [];
  pids = [];
  const look = (totals) => {
    const workers = processes === 1 ? 0 : workersCpu();
    const { user, system } = process.cpuUsage();
    const { turns, episodesFinished: episodes } = totals;
    seen.push({ turns, episodes, own: (user + system) / 1e6, workers });
  };
  let current = null;
  const total = 115 * groupSize;
  const timer = setInterval(() => {
    const totals = current?.();
    if (totals !== undefined && totals.episodesFinished >= total / 2 && totals.episodesFinished < total) look(totals);
  }, 200);
  await rollout({
    ...{ env: "tau-bench/retail", split: "test", tasks: "all", data: join(shared, "tau-bench"), groupSize, processes },
    ...{ model: join(shared, "models", "qwen2.5-instruct"), engine: "sglang", url: `http://127.0.0.1:${server.port}` },
    ...{ user: "scripted", userLines: lines, concurrency: 256, out: join(folder, `run-${processes}`) },
    onEvent: (event) => {
      if (event.type === "progress") current = event.totals;
      if (event.type === "notice") process.stderr.write(`${event.message}\n`);
    },
  });
  clearInterval(timer);
  const [first, last] = [seen[0], seen.at(-1)];
  const [turns, episodes] = [last.turns - first.turns, last.episodes - first.episodes];
  const own = last.own - first.own;
  return { turnsPerCpu: turns / (processes === 1 ? own : last.workers - first.workers), ownUs: (own * 1e6) / episodes };
}

try {
  console.log(`machine   ${machine()}`);
  console.log(`command   npm run bench -- workers ${most} ${groupSize}`);
  const alone = await measure(1);
  console.log(
    `one process           ${alone.turnsPerCpu.toFixed(0)} turns a CPU-second, ${alone.ownUs.toFixed(0)} us an episode`,
  );
  for (let processes = 2; processes <= most; processes *= 2) {
    const { turnsPerCpu, ownUs } = await measure(processes);
    const share = (turnsPerCpu / alone.turnsPerCpu).toFixed(2);
    console.log(
      `${processes} workers             ${turnsPerCpu.toFixed(0)} turns a CPU-second of a worker: ${share} of one process (target: 0.9); ` +
        `coordinator ${ownUs.toFixed(0)} us an episode (target: at most 500)`,
    );
  }
} finally {
  server.close();
  await rm(folder, { recursive: true });
}
