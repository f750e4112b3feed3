// `node scripts/verify/trained-rows.mjs <model> <folder> <steps>`: trains the model as `train`
// does, and also writes the training data to `<folder>/steps.jsonl`: one line per step with its
// groups of slime rows, without those of zero variance. For `npm run verify -- trainers`, where
// torch learns from the same rows with the loss of python/trainable_agents/torch_grpo.py, which has
// no penalties for broken rules or for distance.

import { createWriteStream } from "node:fs";
import { join, resolve } from "node:path";

import { readTraining, trainFrom } from "../../dist/api/train.js";
import { toSlimeRow } from "../../dist/export/index.js";
import { episodeRunner } from "../../dist/rollout/index.js";

/** @import { FinishedEpisode } from "../../dist/rollout/index.js" */

const [model = "", folder = "", steps = ""] = process.argv.slice(2);
const flags = {
  env: "bookshop",
  model: resolve(model),
  seed: 1,
  threads: 2,
  minutes: 600,
  steps: Number(steps),
  groups: 12,
  groupSize: 8,
  penalty: 0,
  kl: 0,
  lr: 3e-4,
  warmUp: 5,
  checkpointEvery: Number(steps),
  evalEvery: 0,
  finalTasks: 12,
};

/**
 * Groups of each step, by the weight version that sampled them.
 *
 * @type {Map<string, Map<string, FinishedEpisode[]>>}
 */
const trained = new Map();

/** @type {typeof episodeRunner} */
const recording = (parts, options) => {
  const run = episodeRunner(parts, options);
  return async (task, request) => {
    const finished = await run(task, request);
    // Evaluations are not used for training.
    if (request.groupId.endsWith("@evaluation")) return finished;
    const version = finished.result.samples[0]?.weightRanges[0]?.reply ?? "";
    const groups = trained.get(version) ?? /** @type {Map<string, FinishedEpisode[]>} */ (new Map());
    trained.set(version, groups);
    const members = groups.get(request.groupId) ?? [];
    groups.set(request.groupId, [...members, finished]);
    return finished;
  };
};

const settings = await readTraining({ ...flags, out: join(folder, "train") });
const { checkpoint } = await trainFrom(settings, { makeRunner: recording });
const file = createWriteStream(join(folder, "steps.jsonl"));
for (const groups of trained.values()) {
  const live = [...groups.values()].filter((members) => new Set(members.map(({ episode }) => episode.reward)).size > 1);
  file.write(`${JSON.stringify(live.map((members) => members.flatMap(rowsOf)))}\n`);
}
file.end(() => process.stdout.write(`${checkpoint}\n`));

/** @param {FinishedEpisode} finished */
function rowsOf({ episode, result: { samples } }) {
  const origin = { episode, index: episode.sampleIndex, groupIndex: 0, sampleCount: samples.length };
  return samples.map((sample) => toSlimeRow(sample, origin, { decode: () => "" }));
}
