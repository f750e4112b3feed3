// Thousands of episodes at once in one process, over sockets, with tokenizer, environment and
// journal: the delay of the event loop, the cost of a turn, and the memory. First with a server
// that takes about 4 s and a user who takes about 2 s (log-normal, sigma 0.5), measured once all
// episodes are in flight; then both without delay, for the maximum turns per second.
// Run: npm run bench -- concurrency [episodes] [seconds]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { slowUser } from "../dist/cli/simulation/simulated-parts.js";
import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { systemClock } from "../dist/lib/clock.js";
import { resumableRunner, runRollout, episodeRunner } from "../dist/rollout/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { measureLoopLag } from "../dist/telemetry/index.js";
import { cpuOf, machine, reportRows } from "./lib/measure.mjs";
import { goldServerReplies, loadWorld, shortUser, startServer } from "./lib/prepared-episodes.mjs";

const concurrency = Number(process.argv[2] ?? 4096);
const seconds = Number(process.argv[3] ?? 20);
/** Time until every episode has begun, and they have drifted apart. */
const settlingSeconds = Number(process.argv[4] ?? 15);
const engineDelay = { medianMs: 4000, sigma: 0.5 };
const userDelay = { medianMs: 2000, sigma: 0.5 };

const { tokenizer, environment, renderer, tasks, strategy, taskset } = await loadWorld();
const replies = goldServerReplies({ tasks, taskset, tokenizer });
const taskIndexes = tasks.map((_, index) => index);

/** Runs until it is stopped; measures `seconds` seconds after `settling` seconds. */
async function measure({ atOnce, delay, user, settling }) {
  const folder = await mkdtemp(join(tmpdir(), "concurrency-"));
  const server = await startServer(replies, { record: false, delay });
  const engine = createSglangEngine({ port: server.port, connections: atOnce });
  const store = createFileRunStore(join(folder, "run"));
  await store.begin(new Map());
  const runEpisode = resumableRunner(episodeRunner({ environment, engine, renderer, strategy, user }), store);
  const stop = new AbortController();
  let totals = () => ({ turns: 0 });
  const lag = measureLoopLag();
  const run = runRollout(
    { taskset, taskIndexes, groupSize: 1000, seed: 0 },
    { runEpisode, store, exportSamples: () => [] },
    { concurrency: atOnce, signal: stop.signal, onProgress: (now) => (totals = now) },
  );
  const looking = (async () => {
    // On a busy machine it takes longer until every episode has had its first turn.
    const latest = performance.now() + 8 * settling * 1000;
    await systemClock.sleep(settling * 1000);
    while (totals().turns < atOnce && performance.now() < latest) await systemClock.sleep(1000);
    const starting = lag.read();
    const before = totals().turns;
    const start = performance.now();
    const { cpuUs } = await cpuOf(() => systemClock.sleep(seconds * 1000));
    const passed = (performance.now() - start) / 1000;
    const turns = totals().turns - before;
    const seen = { starting, lag: lag.read(), cpuUs, passed, turns, rss: process.memoryUsage().rss };
    stop.abort();
    return seen;
  })();
  const [seen] = await Promise.all([looking, run]);
  lag.stop();
  await store.close(new Map());
  await engine.close();
  server.close();
  await rm(folder, { recursive: true });
  return seen;
}

const waiting = await measure({
  atOnce: concurrency,
  delay: engineDelay,
  user: slowUser(shortUser, userDelay, systemClock),
  settling: settlingSeconds,
});
const saturated = await measure({ atOnce: 256, delay: null, user: shortUser, settling: 5 });

const rate = ({ turns, passed }) => turns / passed;
const perTurn = ({ cpuUs, turns }) => cpuUs / turns;
const megabytes = (waiting.rss / 1e6).toFixed(0);
const busy = ((100 * waiting.cpuUs) / 1e6 / waiting.passed).toFixed(0);
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- concurrency ${concurrency} ${seconds}`);
console.log(`${concurrency} episodes, engine 4 s, user 2 s; ${seconds} s, ${settlingSeconds} s after the start:`);
console.log(
  `  event-loop lag        p50 ${waiting.lag.p50.toFixed(1)} ms, p99 ${waiting.lag.p99.toFixed(1)} ms, most ${waiting.lag.max.toFixed(0)} ms   (target: p99 under 50 ms)`,
);
console.log(
  `  while they start      p99 ${waiting.starting.p99.toFixed(1)} ms, most ${waiting.starting.max.toFixed(0)} ms`,
);
console.log(
  `  turns                 ${rate(waiting).toFixed(0)} a second, ${perTurn(waiting).toFixed(0)} us of CPU each: ${busy} % of a core`,
);
console.log(`  resident memory       ${megabytes} MB`);
console.log(
  `256 episodes, engine and user at once: ${rate(saturated).toFixed(0)} turns per second, ${perTurn(saturated).toFixed(0)} us of CPU each`,
);
reportRows(
  {
    what: `${concurrency.toLocaleString("en")} episodes at once, engine 4 s, user 2 s: event-loop lag`,
    figure: `p50 ${waiting.lag.p50.toFixed(1)} ms, p99 ${waiting.lag.p99.toFixed(1)} ms; ${rate(waiting).toFixed(0)} turns per second, ${perTurn(waiting).toFixed(0)} us of CPU each (${busy} % of a core); ${megabytes} MB resident`,
    target: "p99 under 50 ms",
    isMet: waiting.lag.p99 < 50,
  },
  {
    what: "most turns per second: 256 episodes, engine and user at once",
    figure: `${rate(saturated).toFixed(0)} turns per second, ${perTurn(saturated).toFixed(0)} us of CPU each (${(1e6 / perTurn(saturated)).toFixed(0)} turns per CPU-second)`,
    target: null,
    isMet: null,
  },
);
