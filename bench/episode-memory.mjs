// Memory of one more episode in flight at 8,000 tokens: episodes run until their prompt has 8,000
// tokens and then wait for a reply that never comes, with the real tokenizer, environment, HTTP
// client and journal. The difference between many and few of them, after garbage collection, gives
// the cost of one.
// Run: npm run bench -- episode-memory [episodes]

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createSglangEngine } from "../dist/engines/sglang/index.js";
import { runEpisode } from "../dist/rollout/index.js";
import { resumableRunner, runRollout, episodeRunner } from "../dist/rollout/index.js";
import { createFileRunStore } from "../dist/store/index.js";
import { machine, reportRows } from "./lib/measure.mjs";
import { callText, cannedReply, loadWorld, shortUser, startServer } from "./lib/prepared-episodes.mjs";

const many = Number(process.argv[2] ?? 600);
const few = Math.round(many / 3);
const wantedTokens = 8000;
const target = 200_000;
const { tokenizer, environment, renderer, strategy, taskset, lookUp } = await loadWorld();
const task = taskset.task(0);

const reply = cannedReply(callText(lookUp.name, lookUp.args), tokenizer);
const parts = { environment, renderer, strategy, user: shortUser };
const limits = { maxTurns: 400 };
const lengths = await promptLengths();
const heldTurn = lengths.findIndex((length) => length >= wantedTokens);
const server = await startServer(
  replies((turn) => turn < heldTurn),
  { record: false },
);

function replies(isAnswered) {
  const turns = Array.from({ length: limits.maxTurns }, (_, turn) => turn);
  return Object.fromEntries(turns.map((turn) => [`${task.id}:${turn}`, isAnswered(turn) ? reply : null]));
}

/** Prompt length of every turn of such an episode. */
async function promptLengths() {
  const open = await startServer(
    replies(() => true),
    { record: false },
  );
  const engine = createSglangEngine({ port: open.port });
  const { trajectory } = await runEpisode(task, { ...parts, engine }, { limits });
  await engine.close();
  open.close();
  let length = 0;
  return trajectory.turns.map(({ observationTokens, sampledTokens }) => {
    const prompt = length + observationTokens.length;
    length = prompt + sampledTokens.length;
    return prompt;
  });
}

/** Memory while `count` episodes wait. */
async function hold(count) {
  const folder = await mkdtemp(join(tmpdir(), "episode-memory-"));
  const engine = createSglangEngine({ port: server.port, connections: count });
  const stop = new AbortController();
  let held = 0;
  let arrived = () => {};
  const all = new Promise((resolve) => (arrived = resolve));
  const counted = {
    name: engine.name,
    close: () => engine.close(),
    sample(request, options) {
      if (request.prompt.length >= wantedTokens && ++held === count) arrived();
      return engine.sample(request, options);
    },
  };
  const store = createFileRunStore(join(folder, "run"));
  await store.begin(new Map());
  const counting = resumableRunner(episodeRunner({ ...parts, engine: counted }, { limits }), store);
  const run = runRollout(
    { taskset, taskIndexes: [0], groupSize: count, seed: 0 },
    { runEpisode: counting, store, exportSamples: () => [] },
    { concurrency: count, signal: stop.signal },
  );
  await Promise.race([all, run]);
  await settled();
  const { heapUsed, external, arrayBuffers, rss } = process.memoryUsage();
  stop.abort();
  await run;
  await store.close(new Map());
  await engine.close();
  await rm(folder, { recursive: true });
  // Bodies are in memory that could be shared, which counts as a buffer and not as external.
  return { bytes: heapUsed + Math.max(external, arrayBuffers), rss };
}

/** Waits until bodies are sent and garbage is collected. */
async function settled() {
  for (let round = 0; round < 4; round++) {
    await new Promise((resolve) => setTimeout(resolve, 250));
    globalThis.gc();
  }
}

await hold(few);
const less = await hold(few);
const more = await hold(many);
const each = (more.bytes - less.bytes) / (many - few);
const rssEach = (more.rss - less.rss) / (many - few);
const kilobytes = (bytes) => (bytes / 1000).toFixed(0);
console.log(`machine   ${machine()}`);
console.log(`command   npm run bench -- episode-memory ${many}`);
console.log(`work      ${few} and ${many} episodes that wait for a reply to a prompt of ${lengths[heldTurn]} tokens`);
console.log(`heap and buffers of one more episode: ${kilobytes(each)} kB   (target: at most 200 kB)`);
console.log(`resident memory of one more episode: ${kilobytes(rssEach)} kB`);
reportRows({
  what: `memory of one more episode in flight, prompt of ${lengths[heldTurn]} tokens`,
  figure: `${kilobytes(each)} kB of heap and buffers (resident memory: ${kilobytes(rssEach)} kB)`,
  target: "at most 200 kB",
  isMet: each <= target,
});
server.close();
