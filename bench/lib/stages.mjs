// Cost of each stage of a turn in the process, without a server: the same episodes against an
// engine with prepared results, in CPU time of the process; reading that clock adds about a
// microsecond to each call.

import { join } from "node:path";

import { episodeSamples, runEpisode } from "../../dist/rollout/index.js";
import { resumableRunner, runRollout, episodeRunner } from "../../dist/rollout/index.js";
import { createFileRunStore } from "../../dist/store/index.js";
import { cpuOf, median, warmUpRounds } from "./measure.mjs";
import { goldReplies } from "./prepared-episodes.mjs";

/** Rows of name and microseconds per turn; the first one is the total. */
export async function measureStages({ parts: real, tokenizer, plan, tasks, folder, concurrency, rounds }) {
  const parts = { ...real, engine: readyEngine(tokenizer, plan, tasks) };
  const nowhere = { append: async () => {}, appendGroup: async () => {} };
  let runs = 0;
  const rollOut = async (store, play = episodeRunner(parts)) =>
    runRollout(plan, { runEpisode: play, store, exportSamples: () => [] }, { concurrency });
  const rollOutIntoFolder = async ({ journals }) => {
    const store = createFileRunStore(join(folder, `stages-${runs++}`));
    await store.begin(new Map());
    await rollOut(store, journals ? resumableRunner(episodeRunner(parts), store) : undefined);
    await store.close(new Map());
  };
  const { turns } = await rollOut(nowhere);
  const play = async (played) => {
    const episodes = [];
    for (const index of plan.taskIndexes) episodes.push(await runEpisode(plan.taskset.task(index), played));
    return episodes;
  };
  const costs = { all: [], unjournalled: [], kept: [], loop: [], samples: [] };
  const calls = [];
  for (let round = 0; round < rounds + warmUpRounds; round++) {
    const measured = {};
    let episodes = [];
    measured.all = await cpuOf(() => rollOutIntoFolder({ journals: true }));
    measured.unjournalled = await cpuOf(() => rollOutIntoFolder({ journals: false }));
    measured.kept = await cpuOf(() => rollOut(nowhere));
    measured.loop = await cpuOf(async () => (episodes = await play(parts)));
    measured.samples = await cpuOf(() => episodes.map(episodeSamples));
    const times = new Map();
    await play(timed(parts, times));
    if (round < warmUpRounds) continue;
    for (const [name, { cpuUs }] of Object.entries(measured)) costs[name].push(cpuUs / turns);
    calls.push(times);
  }
  const names = [...calls[0].keys()];
  const single = names.map((name) => [`    ${name}`, median(calls.map((times) => times.get(name) / turns))]);
  const known = single.reduce((sum, [, cost]) => sum + cost, 0);
  const [all, unjournalled, kept, loop, samples] = ["all", "unjournalled", "kept", "loop", "samples"].map((name) =>
    median(costs[name]),
  );
  return [
    ["everything but the engine", all],
    ["  journal", all - unjournalled],
    ["  run folder", unjournalled - kept],
    ["  samples, with their checks", samples],
    ["  totals and the run's own work", kept - loop - samples],
    ["  episode", loop],
    ...single,
    ["    the loop: waiting, events, record, garbage", loop - known],
  ];
}

/** Results made before the clock starts. */
function readyEngine(tokenizer, plan, tasks) {
  const results = new Map();
  for (const [index, task] of tasks.entries()) {
    for (const [turn, text] of goldReplies(task).entries()) {
      const sampledTokens = tokenizer.encode(`${text}<|im_end|>`);
      results.set(`${plan.taskset.task(index).id}#0:${turn}`, {
        sampledTokens,
        logprobs: new Float32Array(sampledTokens.length).fill(-0.5),
        finish: { reason: "stop", matched: sampledTokens.at(-1), raw: null },
        weightSpans: [{ tokenCount: sampledTokens.length, dispatch: "1", reply: "1" }],
        usage: { promptTokens: 0, completionTokens: sampledTokens.length, cachedTokens: null },
      });
    }
  }
  return {
    name: "ready",
    sample: async ({ requestId }) => results.get(requestId.slice(0, requestId.lastIndexOf(":"))),
    close: async () => {},
  };
}

/** The parts, wrapped to measure the CPU time of their calls. */
function timed(parts, times) {
  const around =
    (name, action) =>
    (...values) => {
      const before = process.cpuUsage();
      try {
        return action(...values);
      } finally {
        const { user, system } = process.cpuUsage(before);
        times.set(name, (times.get(name) ?? 0) + user + system);
      }
    };
  const { renderer, strategy, environment } = parts;
  const timedWorld = (world) =>
    new Proxy(world, {
      get: (target, key) => {
        const value = target[key];
        if (typeof value !== "function") return value;
        return around(`environment: ${String(key)}`, (...values) => value.apply(target, values));
      },
    });
  return {
    ...parts,
    renderer: {
      ...renderer,
      renderPrompt: around("first prompt", renderer.renderPrompt),
      bridge: around("bridge: later prompts", renderer.bridge),
      parseAction: around("reading the action", renderer.parseAction),
    },
    strategy: { ...strategy, decide: around("judging the action", strategy.decide) },
    environment: {
      ...environment,
      open: around("environment: open", (task) => timedWorld(environment.open(task))),
    },
  };
}
