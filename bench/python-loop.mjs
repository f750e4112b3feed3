// Turns per CPU-second of our loop against a Python stand-in of the loop that the field uses
// (`bench/python/seed_loop.py`: whole conversation rendered and encoded again, text sent), on the
// same episodes and the same server, rounds interleaved. Ours has its environment, journal and run
// folder on; Python's environment and user answer from a script at no cost. BENCH_PYTHON names a
// Python that has the packages already.
// Run: npm run bench -- python-loop [rounds]

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { toPlain } from "../dist/python-semantics/json/index.js";
import { requestIdOf } from "../dist/rollout/episode/sample-turn.js";
import { resumableRunner, runRollout, episodeRunner } from "../dist/rollout/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { cpuOf, machine, median, reportRows, spread, warmUpRounds } from "./lib/measure.mjs";
import { pythonWithTransformers, startPythonLoop } from "./lib/python-loop.mjs";
import { goldServerReplies, loadWorld, shortUser, startServer, worldName } from "./lib/prepared-episodes.mjs";

const rounds = Number(process.argv[2] ?? 5);
const concurrency = 32;
const target = 50;
/**
 * CPU time of the reference environment in an episode, measured on such a machine; see
 * `bench/tau-bench.mjs`.
 */
const pythonEnvironmentUs = 270_000;
const what = "turns per CPU-second against a Python stand-in of the field's loop";

const { executable, problem } = pythonWithTransformers();
if (executable === null) {
  console.log(`Skipped: there is no Python with transformers, because ${problem}.`);
  reportRows({ what, figure: `skipped: ${problem}`, target: `at least ${target} times`, isMet: null });
  process.exit(0);
}
const { tokenizer, environment, renderer, tasks, strategy, taskset, modelFolder } = await loadWorld();
const server = await startServer(goldServerReplies({ tasks, taskset, tokenizer }), { record: false });
const engine = createSglangEngine({ port: server.port, connections: concurrency });
const parts = { environment, engine, renderer, strategy, user: shortUser };
const plan = { taskset, taskIndexes: tasks.map((_, index) => index), groupSize: 1, seed: 0 };
const folder = await mkdtemp(join(tmpdir(), "python-loop-"));

let runs = 0;
async function ours(onEpisode = () => {}) {
  const store = createFileRunStore(join(folder, `run-${runs++}`));
  await store.begin(new Map());
  const runEpisode = resumableRunner(episodeRunner(parts), store);
  const totals = await runRollout(plan, { runEpisode, store, exportSamples: () => [] }, { concurrency, onEpisode });
  await store.close(new Map());
  if (totals.outcomes.completed !== tasks.length) throw new Error(JSON.stringify(totals));
  return totals.turns;
}

/** Replies of Python's environment and user, recorded from ours. */
const episodes = [];
const tokensTrained = [];
async function note(ended) {
  const { episode } = await ended.open();
  const words = episode.messages.filter(({ role }) => role !== "assistant").map(({ content }) => content);
  const turns = episode.trajectory.turns.length;
  episodes.push({
    // The server chooses the reply by this key.
    key: requestIdOf(episode.id, { turn: 0, call: 0 }).split("_")[0],
    first: words[1],
    steps: Array.from({ length: turns }, (_, turn) => ({
      observation: words[turn + 2] ?? "###STOP###",
      done: turn === turns - 1,
    })),
  });
  tokensTrained.push(episode.trajectory.turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0));
}
await ours((ended) => void note(ended));
const script = join(folder, "script.json");
const { guidelines, tools } = environment.open(taskset.task(0), {
  seed: 0,
  signal: new AbortController().signal,
});
await writeFile(
  script,
  JSON.stringify({
    model: modelFolder,
    url: `http://127.0.0.1:${server.port}/generate`,
    wiki: guidelines,
    tools: toPlain([...tools]),
    concurrency,
    episodes,
  }),
);
const python = await startPythonLoop(executable, script);

// No forced collection between rounds; see `turn-cost.mjs`.
const perTurn = { ours: [], python: [] };
let played = null;
for (let round = 0; round < warmUpRounds; round++) await ours();
await python.run();
for (let round = 0; round < rounds; round++) {
  const { result: turns, cpuUs } = await cpuOf(() => ours());
  const theirs = (played = await python.run());
  if (theirs.turns !== turns) throw new Error(`Python played ${theirs.turns} turns, we ${turns}.`);
  perTurn.ours.push(cpuUs / turns);
  perTurn.python.push(theirs.cpuUs / turns);
}
const ratios = perTurn.ours.map((cost, round) => perTurn.python[round] / cost);
const environmentUs = (pythonEnvironmentUs * tasks.length) / played.turns;
const whole = perTurn.ours.map((cost, round) => (perTurn.python[round] + environmentUs) / cost);
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- python-loop ${rounds}`);
console.log(`work      ${tasks.length} episodes, ${played.turns} turns, concurrency ${concurrency}`);
console.log(`warm-up   ${warmUpRounds} rounds of ours, 1 of Python's`);
console.log(`trained   ${played.trained} tokens by Python, ${tokensTrained.reduce((a, b) => a + b, 0)} by us`);
console.log(`ours      CPU us a turn: ${spread(perTurn.ours)}`);
console.log(`Python    CPU us a turn: ${spread(perTurn.python)}, environment and user at no cost`);
console.log(`turns per CPU-second against Python, its environment free: ${spread(ratios)}`);
if (worldName !== "bookshop")
  console.log(
    `the same with 0.27 s an episode for the reference's environment: ${spread(whole)}   (target: ${target})`,
  );
reportRows(
  {
    what: `${what}, its environment and user free`,
    figure: `${spread(ratios)} times; ${median(perTurn.ours).toFixed(0)} us of CPU a turn against ${median(perTurn.python).toFixed(0)}`,
    target: null,
    isMet: null,
  },
  ...(worldName === "bookshop"
    ? []
    : [
        {
          what: "the same, with the 0.27 s that the reference's environment takes an episode (by arithmetic)",
          figure: `${spread(whole)} times`,
          target: `at least ${target} times`,
          isMet: median(whole) >= target,
        },
      ]),
);
python.close();
await engine.close();
server.close();
await rm(folder, { recursive: true });
