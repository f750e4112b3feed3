// A process that plays episodes against a server on which everything goes wrong, over real sockets, checks each of them, and
// says how much memory it has on the way. A process of its own, because resident memory is a process's and a test shares one
// with other tests. Run by tests/soak.test.ts:
//   node --expose-gc soak-child.mjs <tasks> <concurrency> <mark>
// Prints one object: `episodes` ended, `outcomes` (how often each), `wrong` (what should not be, the first ten), `faults` (how
// often each was met), `load` the server's at the end, `totals` of the rollout, and memory as {"resident":<bytes>,
// "heap":<bytes>} (what the process has, and what of it our own objects take): `marked` after <mark> episodes, `last` before the
// last ones end.

import { createToolCalling } from "../../dist/agents/index.js";
import { createSglangEngine } from "../../dist/engines/sglang/index.js";
import { bookshopSource, createExpertSampler } from "../../dist/environments/bookshop/index.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { runRollout, tokenExactPlayer } from "../../dist/runs/index.js";
import { createFaultSampler, createSglangFront, faultNames } from "../../dist/testing/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { alignmentViolations, conservationViolations } from "../../dist/trajectories/index.js";
import { agendaUser } from "../../dist/users/index.js";

const [tasks, concurrency, mark] = process.argv.slice(2).map(Number);
const samplesPerTask = 4;

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

const taskset = environment.taskset("train");
const taskIndexes = Array.from({ length: tasks }, (_, index) => index);
const places = new Map(taskIndexes.map((index) => [taskset.task(index).id, index]));
/** How often each ended. Made before anything is measured, so that it does not grow. */
const ends = new Uint8Array(tasks * samplesPerTask);
const outcomes = {};
const wrong = [];
let episodes = 0;
let marked = null;
let last = null;

function expect(isRight, episode, what) {
  if (!isRight && wrong.length < 10) wrong.push(`${episode.id}: ${what}`);
}

function onEpisode(episode) {
  const { outcome, reward, failure } = episode;
  const count = ++ends[places.get(episode.task.id) * samplesPerTask + episode.sampleIndex];
  expect(count === 1, episode, `ended ${count} times`);
  expect((failure === null) === (outcome !== "failed"), episode, `${outcome}, failure ${failure?.type}`);
  expect((reward !== null) === ["completed", "truncated"].includes(outcome), episode, `${outcome}, reward ${reward}`);
  expect(episode.events.at(-1)?.type === "episode-end", episode, "its last event is not its end");
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  if (++episodes === mark) marked = memory();
  // With as many under way as then.
  if (episodes === tasks * samplesPerTask - concurrency) last = memory();
}

const totals = await runRollout(
  { taskset, taskIndexes, samplesPerTask, seed: 11 },
  {
    play,
    store: { append: async () => {}, appendGroup: async () => {} },
    exportSamples: ({ episode, result }) => {
      for (const problem of conservationViolations(episode.trajectory, result)) expect(false, episode, problem);
      for (const problem of result.samples.flatMap(alignmentViolations)) expect(false, episode, problem);
      return [];
    },
  },
  { concurrency, onEpisode },
);
await engine.close();
await listener.close();
process.stdout.write(
  JSON.stringify({ episodes, outcomes, wrong, faults: sampler.counts, load: front.load(), totals, marked, last }),
);
