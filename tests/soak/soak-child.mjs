// A process that runs episodes against a server on which everything goes wrong, over real sockets,
// checks each of them, and reports its memory. A process of its own, because resident memory
// belongs to a process and a test shares one with other tests.
// Run by tests/soak.test.ts: node soak-child.mjs <tasks> <times each> <concurrency> <mark>
// Prints one object: `episodes` ended, `outcomes` (how often each), `wrong` (the first ten
// violations), `faults` (how often each occurred), `load` the server's at the end, `totals` of the
// rollout, and resident memory in bytes, `marked` around <mark> ended episodes and `last` before
// the last ones end: means over a thousand ended episodes, because memory fluctuates by a tenth
// from moment to moment. Nothing is collected by force: V8 would then discard code and its notes on
// objects, and create them again elsewhere.

import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { createToolCalling } from "../../dist/agents/index.js";
import { createSglangEngine } from "../../dist/engines/sglang/index.js";
import { bookshopSource } from "../../dist/environments/bookshop/index.js";
import { createQwenRenderer } from "../../dist/renderers/index.js";
import { runRollout, tasksInOrder, episodeRunner } from "../../dist/rollout/index.js";
import { createReadableTokenizer } from "../../dist/tokenizers/index.js";
import { alignmentViolations, conservationViolations } from "../../dist/trajectories/index.js";
import { agendaUser } from "../../dist/users/index.js";

const [tasks, passes, concurrency, mark] = process.argv.slice(2).map(Number);
const groupSize = 4;
const planned = tasks * passes * groupSize;

const tokenizer = createReadableTokenizer();
const server = fork(fileURLToPath(new URL("soak-server.mjs", import.meta.url)), { execArgv: [] });
const [{ url }] = await once(server, "message");
const engine = createSglangEngine({ url, connections: concurrency });
const environment = bookshopSource();
const renderer = createQwenRenderer({ tokenizer, family: "qwen2.5-instruct" });
const parts = { environment, engine, renderer, user: agendaUser(), strategy: createToolCalling() };
const runEpisode = episodeRunner(parts, {
  seedTurns: true,
  retry: { maxAttempts: 8, maxElapsedMs: 120_000, baseDelayMs: 5, maxDelayMs: 100 },
});

const taskset = environment.taskset("train");
const taskIndexes = Array.from({ length: tasks }, (_, index) => index);
const places = new Map(taskIndexes.map((index) => [taskset.task(index).id, index]));
/**
 * Number of times that each episode ended. Allocated before anything is measured, so that it does
 * not grow.
 */
const ends = new Uint8Array(planned);
const outcomes = {};
const wrong = [];
let episodes = 0;
const half = Math.min(500, Math.floor(mark / 2));
/** Two windows: around the mark, and the last one with as many episodes in flight. */
const windows = [mark, planned - concurrency - half].map((middle) => {
  return { from: middle - half, to: middle + half, resident: [] };
});

function expect(isRight, episode, what) {
  if (!isRight && wrong.length < 10) wrong.push(`${episode.id}: ${what}`);
}

async function onEpisode(ended) {
  const { episode } = await ended.open();
  const { outcome, reward, failure } = episode;
  const pass = Number(episode.groupId.split("@")[1] ?? 1) - 1;
  const count = ++ends[(pass * tasks + places.get(episode.task.id)) * groupSize + episode.sampleIndex];
  expect(count === 1, episode, `ended ${count} times`);
  expect((failure === null) === (outcome !== "failed"), episode, `${outcome}, failure ${failure?.type}`);
  expect((reward !== null) === ["completed", "truncated"].includes(outcome), episode, `${outcome}, reward ${reward}`);
  expect(episode.events.at(-1)?.type === "episode-end", episode, "its last event is not its end");
  outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
  episodes += 1;
  for (const { from, to, resident } of windows) {
    if (episodes > from && episodes <= to) resident.push(process.memoryUsage.rss());
  }
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

const totals = await runRollout(
  { taskset, taskIndexes, groupSize, seed: 11 },
  {
    runEpisode,
    store: { append: async () => {}, appendGroup: async () => {} },
    exportSamples: ({ episode, result }) => {
      for (const problem of conservationViolations(episode.trajectory, result)) expect(false, episode, problem);
      for (const problem of result.samples.flatMap(alignmentViolations)) expect(false, episode, problem);
      return [];
    },
  },
  { concurrency, onEpisode: (ended) => void onEpisode(ended), tasks: tasksInOrder(taskIndexes, { passes }) },
);
await engine.close();
server.send("report");
const [{ faults, load }] = await once(server, "message");
server.disconnect();
const [marked, last] = windows.map(({ resident }) => mean(resident));
process.stdout.write(JSON.stringify({ episodes, outcomes, wrong, faults, load, totals, marked, last }));
