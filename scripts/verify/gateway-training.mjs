// `npm run verify -- gateway-training`: an external agent program, a separate process that knows
// only an address and keys, learns through the gateway; for comparison, the built-in loop learns on
// the same tasks with the same seeds. The learner is that of `train`, and learns from the contents
// of the gateway's run folder. Each row must equal the built-in loop's, token for token and logprob
// for logprob, and so must the weights; both must learn, and the gain on held-out tasks must lie in
// the interval of the built-in loop's.

import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createToolCalling } from "../../dist/agents/index.js";
import { readTraining, trainFrom } from "../../dist/api/train.js";
import { differenceInterval } from "../../dist/graders/index.js";
import { evaluate } from "../../dist/index.js";
import { episodeRunner } from "../../dist/rollout/index.js";
import { startGateway, unusedName } from "./outside-agent.mjs";
import { createReport } from "./report.mjs";

/** @import { AgentStrategy } from "../../dist/core/index.js" */
/** @import { Interval } from "../../dist/graders/index.js" */
/** @import { FinishedEpisode } from "../../dist/rollout/index.js" */
/** @typedef {typeof episodeRunner} MakeRunner */
/** @typedef {{ readonly reward: number | null, readonly tokens: number, readonly rows: string, readonly logprobs: string }} Recorded */

/**
 * A program that speaks Chat Completions is not informed of format errors: text that is not read as
 * a call stays text, and its user receives it. The built-in loop for comparison does the same. All
 * other settings are the defaults.
 */
const asOutside = createToolCalling({
  problemPolicy: {
    "not-json": "utterance",
    "unknown-tool": "utterance",
    "unterminated-call": "utterance",
    "spoofed-marker": "utterance",
    "other-format": "utterance",
    "cut-off": "utterance",
    "schema-violation": "forward",
  },
});

const steps = 12;
const heldOut = 420;
const groupSize = 8;
const flags = {
  env: "bookshop",
  seed: 1,
  threads: 2,
  minutes: 600,
  steps,
  checkpointEvery: steps,
  groups: 12,
  groupSize,
  warmUp: 2,
  evalEvery: 0,
  finalTasks: heldOut,
};

/**
 * @param {{ full: boolean, model: string }} options `full`: also the built-in loop with its own answers to format errors.
 * @returns {Promise<number>} An exit code.
 */
export async function verifyGatewayTraining({ full, model }) {
  const work = mkdtempSync(join(tmpdir(), "trainable-agents-gateway-training-"));
  const date = new Date().toISOString().slice(0, 10);
  const report = createReport(
    `gateway-training: ${model}, ${steps} steps of 12 groups of ${groupSize}, ${heldOut} held-out tasks; Node ${process.versions.node}, ${date}`,
  );
  const gateway = await startGateway(join(work, "run"), { groupSize });
  try {
    const place = { model, work };
    const builtIn = await train("built-in", { ...place, strategy: asOutside, makeRunner: episodeRunner });
    const outside = await train("outside", { ...place, strategy: asOutside, makeRunner: gateway.makeRunner });
    await report.check("rows", async () => compareRows(builtIn.episodes, outside.episodes));
    await report.check("weights", async () => {
      if (outside.weights !== builtIn.weights) throw new Error(`those of step ${steps} are not the built-in loop's`);
      return `those of step ${steps} are the built-in loop's, bit by bit (SHA-256 ${outside.weights.slice(0, 16)})`;
    });
    await report.check("prompts", async () => {
      const { calls, extended, branched, reencoded } = gateway.counters;
      if (branched + reencoded > 0) throw new Error(`${branched} branches, ${reencoded} encoded again`);
      return `${calls} calls, ${extended} extended the record, no branch, none encoded again`;
    });
    await report.check("learning", async () => {
      if (!((builtIn.interval?.low ?? 0) > 0)) throw new Error(`the built-in loop gains ${points(builtIn)}`);
      return `the built-in loop gains ${points(builtIn)}`;
    });
    await report.check("gain at temperature 1", async () => within(outside, builtIn));
    const before = await passedGreedily(model, join(work, "greedy-before"));
    const gains = await Promise.all(
      [builtIn, outside].map(async ({ checkpoint, name }) => {
        const after = await passedGreedily(checkpoint, join(work, `greedy-${name}`));
        return gainOf(before, after);
      }),
    );
    const [builtInGain, outsideGain] = gains;
    if (builtInGain === undefined || outsideGain === undefined) throw new TypeError("Two were measured.");
    await report.check("gain, greedy", async () => within(outsideGain, builtInGain));
    if (full) {
      const byDefault = await train("by-default", { ...place, makeRunner: episodeRunner });
      await report.check("gain beside the built-in loop with its own answers to format errors", async () =>
        within(outside, byDefault),
      );
    }
  } finally {
    await gateway.close();
    rmSync(work, { recursive: true, force: true });
  }
  return report.finish();
}

/**
 * Trains as `train` does, with episodes of `makeRunner`.
 *
 * @param {string} name
 * @param {{ model: string, work: string, strategy?: AgentStrategy, makeRunner: MakeRunner }} parts
 */
async function train(name, { work, makeRunner, ...parts }) {
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  const recorded = recording(makeRunner);
  const settings = await readTraining({ ...flags, ...parts, out: join(work, name) });
  const { comparison, end, checkpoint } = await trainFrom(settings, { makeRunner: recorded.makeRunner });
  const overall = comparison?.[0];
  if (end.type !== "steps" || overall === undefined)
    throw new Error(`Cannot compare: the training "${name}" ended by "${end.type}": ${end.reason}.`);
  const weights = createHash("sha256")
    .update(readFileSync(join(checkpoint, "model.safetensors")))
    .digest("hex");
  const { gain, gainInterval: interval, before, after } = overall;
  const seconds = Math.round((performance.now() - began) / 1000);
  const { user, system } = process.cpuUsage(cpu);
  const outcome = { name, checkpoint, weights, episodes: recorded.episodes, gain, interval };
  const rates = [before, after].map((rate) => `${(rate * 100).toFixed(1)} %`).join(" to ");
  process.stdout.write(
    `  ${name}: ${rates} in ${seconds} s, ${Math.round((user + system) / 1e6)} s of CPU, ${recorded.episodes.size} episodes\n`,
  );
  return outcome;
}

/**
 * A runner that keeps the reward of each episode, and digests of its rows.
 *
 * @param {MakeRunner} makeRunner
 */
function recording(makeRunner) {
  /** @type {Map<string, Recorded>} */
  const episodes = new Map();
  return {
    episodes,
    /** @type {MakeRunner} */
    makeRunner: (parts, options) => {
      const run = makeRunner(parts, options);
      return async (task, request) => {
        const finished = await run(task, request);
        episodes.set(unusedName(request.episodeId, episodes), digestsOf(finished));
        return finished;
      };
    },
  };
}

/** @param {FinishedEpisode} finished @returns {Recorded} */
function digestsOf({ episode: { reward }, result: { samples } }) {
  const rows = samples.map(({ tokens, lossMask, sampledMask, weightRanges }) =>
    JSON.stringify([[...tokens], [...lossMask], [...sampledMask], weightRanges]),
  );
  const logprobs = samples.map(({ logprobs: values }) => (values === null ? "none" : values.join(" ")));
  const digest = (/** @type {readonly string[]} */ lines) =>
    createHash("sha256").update(lines.join("\n")).digest("hex");
  const trained = samples.reduce((sum, { lossMask }) => sum + lossMask.reduce((ones, one) => ones + one, 0), 0);
  return { reward, tokens: trained, rows: digest(rows), logprobs: digest(logprobs) };
}

/** @param {ReadonlyMap<string, Recorded>} builtIn @param {ReadonlyMap<string, Recorded>} outside */
function compareRows(builtIn, outside) {
  const other = { tokens: 0, logprobs: 0, rewards: 0 };
  let tokens = 0;
  for (const [name, one] of builtIn) {
    const same = outside.get(name);
    tokens += one.tokens;
    if (same?.rows !== one.rows) other.tokens++;
    if (same?.logprobs !== one.logprobs) other.logprobs++;
    if (same?.reward !== one.reward) other.rewards++;
  }
  const { size } = builtIn;
  if (outside.size !== size || other.tokens + other.logprobs + other.rewards > 0) {
    throw new Error(
      `of ${size} episodes (outside ${outside.size}), ${other.tokens} have other tokens, masks or weights, ` +
        `${other.logprobs} other logprobs, ${other.rewards} other rewards`,
    );
  }
  return `${size} episodes, ${tokens} sampled tokens: tokens, masks, weight versions, logprobs and rewards are the built-in loop's`;
}

/** @typedef {{ readonly gain: number, readonly interval: Interval | null }} Gain */

/** @param {Gain} gain */
function points({ gain, interval }) {
  const show = (/** @type {number} */ share) => (share * 100).toFixed(1);
  return `${show(gain)} points${interval === null ? "" : ` (${show(interval.low)} to ${show(interval.high)})`}`;
}

/** @param {Gain} outside @param {Gain} builtIn */
function within(outside, builtIn) {
  const { low, high } = builtIn.interval ?? { low: NaN, high: NaN };
  const line = `outside ${points(outside)}, built-in ${points(builtIn)}`;
  if (outside.gain >= low && outside.gain <= high) return line;
  throw new Error(`${line}: not in the interval`);
}

/**
 * Held-out tasks that pass, by id.
 *
 * @param {string} model
 * @param {string} out
 * @returns {Promise<ReadonlyMap<string, number>>}
 */
async function passedGreedily(model, out) {
  const { scores } = await evaluate({
    env: "bookshop",
    split: "validation",
    engine: "embedded",
    model,
    strategy: asOutside,
    tasks: `0-${heldOut - 1}`,
    temperature: 0,
    maxNewTokens: 96,
    maxTurns: 20,
    out,
    quiet: true,
  });
  return new Map(scores.map(({ taskId, reward }) => [taskId, reward === 1 ? 1 : 0]));
}

/** @param {ReadonlyMap<string, number>} before @param {ReadonlyMap<string, number>} after @returns {Gain} */
function gainOf(before, after) {
  const differences = [...before].map(([task, passed]) => (after.get(task) ?? 0) - passed);
  const gain = differences.reduce((sum, one) => sum + one, 0) / differences.length;
  return { gain, interval: differenceInterval(differences) };
}
