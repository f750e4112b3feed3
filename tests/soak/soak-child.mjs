// A process that plays episodes against a server on which everything goes wrong, and says how much memory it has on the way.
// A process of its own, because resident memory is a process's and a test shares one with other tests.
// Run by tests/soak.test.ts: node --expose-gc soak-child.mjs <tasks> <concurrency> <mark>
// Prints {"marked":<after so many episodes>,"last":<before the last ones end>,"episodes":<ended>}, memory as
// {"resident":<bytes>,"heap":<bytes>}: what the process has, and what of it our own objects take.

import { createToolCalling } from "../../dist/agents/index.js";
import { createSglangEngine } from "../../dist/engines/sglang/index.js";
import { bookshopSource, createExpertSampler } from "../../dist/environments/bookshop/index.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { runRollout, tokenExactPlayer } from "../../dist/runs/index.js";
import { createFaultSampler, createSglangFront, faultNames } from "../../dist/testing/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { agendaUser } from "../../dist/users/index.js";

const [tasks, concurrency, mark] = process.argv.slice(2).map(Number);

const tokenizer = createReadableTokenizer();
const rates = Object.fromEntries(faultNames.map((name) => [name, 0.05]));
const sampler = createFaultSampler(createExpertSampler({ tokenizer, noise: 0.2, seed: 3 }), { seed: 5, rates });
const front = createSglangFront({ sampler, tokenizer });
const listener = await front.listen();
const engine = createSglangEngine({ url: listener.url, connections: concurrency });
const environment = bookshopSource();
const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
const parts = { environment, engine, renderer, user: agendaUser(), strategy: createToolCalling() };
const play = tokenExactPlayer(parts, {
  seedTurns: true,
  retry: { maxAttempts: 8, maxElapsedMs: 120_000, baseDelayMs: 5, maxDelayMs: 100 },
});

/** Without what is garbage already. */
function memory() {
  globalThis.gc();
  const { rss, heapUsed } = process.memoryUsage();
  return { resident: rss, heap: heapUsed };
}

let ended = 0;
let marked = null;
let last = null;
const samplesPerTask = 4;
await runRollout(
  {
    taskset: environment.taskset("train"),
    taskIndexes: Array.from({ length: tasks }, (_, index) => index),
    samplesPerTask,
    seed: 11,
  },
  { play, store: { append: async () => {}, appendGroup: async () => {} }, exportSamples: () => [] },
  {
    concurrency,
    onEpisode: () => {
      if (++ended === mark) marked = memory();
      // With as many under way as then.
      if (ended === tasks * samplesPerTask - concurrency) last = memory();
    },
  },
);
await engine.close();
await listener.close();
process.stdout.write(`${JSON.stringify({ marked, last, episodes: ended })}\n`);
