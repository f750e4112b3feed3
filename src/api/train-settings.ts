// The table of what a training has beside the settings of a rollout: flags alone. The defaults are those of the published run;
// docs/learner-log.md holds what else was tried.

import { z } from "zod";
import { choice, custom, number, numberWithin, section, type SettingValues, text, whole } from "./setting.ts";

const switchable = z.preprocess((value) => (value === "none" ? null : value), numberWithin({ above: 0 }).nullable());

export const trainSettings = section("Learning", {
  algorithm: choice(
    "<name>",
    "grpo (rewards compared within a group), reinforce (with all of a step), or sft (imitates samples, see --from)",
    ["grpo", "reinforce", "sft"],
    "grpo",
  ),
  minutes: number("<n>", "for everything, the closing evaluation included", 12, { above: 0 }),
  steps: whole("<n>", "updates at most (default: as many as the minutes allow)", null),
  groups: whole(
    "<n>",
    "groups of a step that teach something; where all episodes earn the same, further tasks are run",
    16,
  ),
  groupSize: whole("<n>", "episodes of a group", 8, { min: 2 }),
  maxGroups: whole(
    "<n>",
    "groups of a step at most, those that teach nothing included (default: twice --groups)",
    null,
  ),
  penalty: number("<advantage>", "taken off the advantage of an episode for each rule that it broke", 1, { min: 0 }),
  lr: number("<rate>", "learning rate (default: 3e-4; 1e-3 for sft)", null, { above: 0 }),
  warmUp: whole("<steps>", "over which the learning rate rises to its value", 5, { min: 0 }),
  normalize: choice(
    "<how>",
    "divide advantages by the standard deviation of the rewards: std, or none",
    ["std", "none"],
    "std",
  ),
  clip: custom(
    "<share>",
    "how far the ratio to the sampling policy may leave 1, or none; on-policy steps need none",
    null,
    "a number above 0, or none",
    switchable,
  ),
  kl: number("<weight>", "of the distance to the model that the training began with", 0, { min: 0 }),
  entropy: number("<weight>", "of a bonus for staying undecided", 0, { min: 0 }),
  maxGradNorm: custom<number | null>(
    "<norm>",
    "gradients are scaled down to it, or none",
    1,
    "a number above 0, or none",
    switchable,
  ),
  weightDecay: number("<rate>", "of matrices", 0, { min: 0 }),
  from: text(
    "<file|folder>",
    "samples to imitate: a run folder, or a samples.jsonl of one (sft alone)",
    null,
    "a file or a folder",
  ),
  minReward: number("<reward>", "of the samples to imitate (default: all are)", null, {}),
  batch: whole("<n>", "samples of an update (sft alone)", 32),
  threads: whole(
    "<n>",
    "of the engine and of the learner; the outcome depends on it (default: one for each core, 8 at most)",
    null,
    { min: 1, max: 64 },
  ),
  evalEvery: whole("<steps>", "between evaluations on held-out tasks; 0: only before and after", 20, { min: 0 }),
  evalTasks: whole("<n>", "of such an evaluation", 210),
  evalSplit: text(
    "<name>",
    'where held-out tasks come from (default: "test" where there is one, else the split that is trained on)',
    null,
    "the name of a split",
  ),
  finalTasks: whole(
    "<n>",
    "held-out tasks of the comparison of before and after; at most 105 for each of --minutes unless given",
    1050,
    { min: 2 },
  ),
  finalFrom: whole("<index>", "first of the held-out tasks, to compare on tasks that nothing was tuned on", 0, {
    min: 0,
  }),
  checkpointEvery: whole("<steps>", "between checkpoints; the last step always has one", 10),
  resume: text(
    "<run>",
    "continue from the last checkpoint of a run folder, with its settings; --steps and --minutes may be given again",
    null,
    "the folder of a training run",
  ),
});

export type TrainSettings = SettingValues<typeof trainSettings>;
