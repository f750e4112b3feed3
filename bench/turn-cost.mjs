// Cost of a turn on the client, with tokenizer, parser, environment, journal and run files on,
// against a null client that only sends the same bodies and reads the same replies. 115 tasks of
// retail or the bookshop, gold actions, tokenizer of the model; the server is another process and
// its CPU is not counted. Rounds are interleaved. A third measurement between the two is the bare
// engine: it writes the same bodies from ids, and parses and checks the replies.
// With --stages it then runs the same episodes against an engine in memory and prints the cost of
// each stage.
// Run: npm run bench -- turn-cost [rounds] [--stages]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Pool } from "undici";

import { defaultSampling, TokenBuffer } from "../dist/core/index.js";
import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { createSemaphore } from "../dist/lib/limits.js";
import { resumableRunner, runRollout, episodeRunner } from "../dist/rollout/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { cpuOf, machine, median, reportRows, spread, warmUpRounds } from "./lib/measure.mjs";
import { measureStages } from "./lib/stages.mjs";
import { goldServerReplies, loadWorld, nullClient, shortUser, startServer } from "./lib/prepared-episodes.mjs";

const rounds = Number(process.argv.slice(2).find((word) => !word.startsWith("--")) ?? 9);
const concurrency = 32;
const { tokenizer, environment, renderer, tasks, strategy, taskset } = await loadWorld();

const server = await startServer(goldServerReplies({ tasks, taskset, tokenizer }));
const engine = createSglangEngine({ port: server.port, connections: concurrency });
const parts = { environment, engine, renderer, strategy, user: shortUser };
const folder = await mkdtemp(join(tmpdir(), "turn-cost-"));
const plan = { taskset, taskIndexes: tasks.map((_, index) => index), groupSize: 1, seed: 0 };

let run = 0;
/** Our client: the loop, with its run folder and its journal. Returns the number of turns. */
async function ours() {
  const store = createFileRunStore(join(folder, `run-${run++}`));
  await store.begin(new Map([["bench", "turn-cost"]]));
  const totals = await runRollout(
    plan,
    { runEpisode: resumableRunner(episodeRunner(parts), store), store, exportSamples: () => [] },
    { concurrency },
  );
  await store.close(new Map([["bench", "turn-cost"]]));
  if (totals.passed === 0 || totals.outcomes.completed !== tasks.length) throw new Error(JSON.stringify(totals));
  return totals.turns;
}

const first = await cpuOf(ours);
const bodies = await server.bodies();
const byEpisode = groupBy(bodies);
const pool = new Pool(`http://127.0.0.1:${server.port}`, {
  connections: concurrency,
  headersTimeout: 0,
  bodyTimeout: 0,
});
const send = nullClient(pool);

/** The null client. */
async function nothing() {
  const sizes = await walk(async (sequence) => {
    let read = 0;
    for (const { body } of sequence) read += await send(body);
    return read;
  });
  if (sizes.includes(0)) throw new Error("Nothing was read.");
  return bodies.size;
}

/** The engine without an episode around it. */
async function engineAlone() {
  await walk(async (sequence) => {
    const prompt = new TokenBuffer();
    for (const { requestId, ids } of sequence) {
      prompt.append(ids.subarray(prompt.length));
      const call = { prompt, requestId, routingKey: null, sampling: defaultSampling, stopTokenIds: [] };
      const { sampledTokens } = await engine.sample(call);
      if (sampledTokens.length === 0) throw new Error("Nothing was sampled.");
    }
    prompt.close();
  });
  return bodies.size;
}

/** Each episode's calls one after another. */
function walk(play) {
  const permits = createSemaphore(concurrency);
  return Promise.all([...byEpisode.values()].map((sequence) => permits.run(() => play(sequence))));
}

function groupBy(all) {
  const groups = new Map();
  for (const [key, body] of all) {
    const episode = key.slice(0, key.lastIndexOf(":"));
    const turn = Number(key.slice(key.lastIndexOf(":") + 1));
    const group = groups.get(episode) ?? [];
    const { rid: requestId, input_ids: ids } = JSON.parse(body.toString("latin1"));
    group[turn] = { body, requestId, ids: Uint32Array.from(ids) };
    groups.set(episode, group);
  }
  return groups;
}

// Garbage is not collected by force between rounds: with no episode alive, V8 then discards the
// code compiled for them, and compiling it again in every round costs more than the turns. A run of
// thousands of episodes never does that.
const clients = { ours, engineAlone, nothing };
const perTurn = { ours: [], engineAlone: [], nothing: [] };
for (let round = 0; round < rounds + warmUpRounds; round++) {
  const order = Object.entries(clients);
  for (const [name, client] of round % 2 === 0 ? order : order.toReversed()) {
    const { result: turns, cpuUs } = await cpuOf(client);
    if (round >= warmUpRounds) perTurn[name].push(cpuUs / turns);
  }
}
const lengths = [...bodies.values()].map((body) => body.toString("latin1").split(",").length);
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- turn-cost ${rounds}`);
console.log(
  `work      ${tasks.length} episodes, ${bodies.size} turns, prompts of about ${Math.min(...lengths)} to ${Math.max(...lengths)} tokens, concurrency ${concurrency}`,
);
console.log(
  `our client    CPU us a turn: ${spread(perTurn.ours)}; ${(first.cpuUs / first.result).toFixed(0)} in the first round`,
);
console.log(`engine alone  CPU us a turn: ${spread(perTurn.engineAlone)}`);
console.log(`null client   CPU us a turn: ${spread(perTurn.nothing)}`);
const ratiosOf = (costs) => costs.map((cost, round) => perTurn.nothing[round] / cost);
const ratios = ratiosOf(perTurn.ours);
const engineRatios = ratiosOf(perTurn.engineAlone);
console.log(`turns per CPU-second against the null client: ${spread(ratios, 2)}   (target: at least 0.8)`);
console.log(`calls per CPU-second of the engine alone against the null client: ${spread(engineRatios, 2)}`);
reportRows({
  what: "turns per CPU-second against a null client",
  figure: `${spread(ratios, 2)}; ${median(perTurn.ours).toFixed(0)} us of CPU a turn against ${median(perTurn.nothing).toFixed(0)}`,
  target: "at least 0.8",
  isMet: median(ratios) >= 0.8,
});
reportRows({
  what: "calls per CPU-second of the engine alone against a null client",
  figure: `${spread(engineRatios, 2)}; ${median(perTurn.engineAlone).toFixed(0)} us of CPU a call`,
  target: null,
  isMet: null,
});
if (median(ratios) <= 0) process.exitCode = 1;
if (process.argv.includes("--stages")) {
  const stages = await measureStages({ parts, tokenizer, plan, tasks, folder, concurrency, rounds });
  const rest = median(perTurn.ours) - stages[0][1];
  console.log("\nstage                                            CPU us a turn");
  for (const [stage, cost] of [["engine: bodies, HTTP, replies, deadlines (the rest)", rest], ...stages]) {
    console.log(`${stage.padEnd(52)} ${cost.toFixed(0).padStart(8)}`);
  }
}

await engine.close();
await pool.close();
server.close();
await rm(folder, { recursive: true });
