// What a training is told beside the settings of a rollout. A catalogue, like `rollout-settings.ts`; these are flags alone.
// The defaults are those of the published run; docs/learner-log.md holds what else was tried.

import { z } from "zod";
import { number, type Setting, setting, text, whole } from "./setting.ts";

const group = "Learning";

const switchable = z.preprocess((value) => (value === "none" ? null : value), number({ above: 0 }).nullable());

export const trainSettings = {
  algorithm: setting<"grpo" | "reinforce" | "sft">({
    group,
    flag: "--algorithm <name>",
    help: "grpo (rewards compared within a group), reinforce (with all of a step), or sft (imitates samples, see --from)",
    wanted: "grpo, reinforce or sft",
    schema: z.enum(["grpo", "reinforce", "sft"]),
    default: "grpo",
  }),
  minutes: setting<number>({
    group,
    flag: "--minutes <n>",
    help: "for everything, the closing evaluation included",
    wanted: "a number above 0",
    schema: number({ above: 0 }),
    default: 12,
  }),
  steps: setting<number | null>({
    group,
    flag: "--steps <n>",
    help: "updates at most (default: as many as the minutes allow)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  groups: setting<number>({
    group,
    flag: "--groups <n>",
    help: "groups of a step that teach something; where all episodes earn the same, further tasks are played",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 16,
  }),
  samples: setting<number>({
    group,
    flag: "--samples <n>",
    help: "episodes of a group",
    wanted: "a whole number of at least 2",
    schema: whole(2),
    default: 8,
  }),
  maxGroups: setting<number | null>({
    group,
    flag: "--max-groups <n>",
    help: "groups of a step at most, those that teach nothing included (default: twice --groups)",
    wanted: "a whole number of at least 1",
    schema: whole(1).nullable(),
    default: null,
  }),
  penalty: setting<number>({
    group,
    flag: "--penalty <advantage>",
    help: "taken off the advantage of an episode for each rule that it broke",
    wanted: "a number of at least 0",
    schema: number({ min: 0 }),
    default: 1,
  }),
  lr: setting<number | null>({
    group,
    flag: "--lr <rate>",
    help: "learning rate (default: 3e-4; 1e-3 for sft)",
    wanted: "a number above 0",
    schema: number({ above: 0 }).nullable(),
    default: null,
  }),
  warmUp: setting<number>({
    group,
    flag: "--warm-up <steps>",
    help: "over which the learning rate rises to its value",
    wanted: "a whole number of at least 0",
    schema: whole(0),
    default: 5,
  }),
  normalize: setting<"std" | "none">({
    group,
    flag: "--normalize <how>",
    help: "divide advantages by the standard deviation of the rewards: std, or none",
    wanted: "std or none",
    schema: z.enum(["std", "none"]),
    default: "std",
  }),
  clip: setting<number | null>({
    group,
    flag: "--clip <share>",
    help: "how far the ratio to the sampling policy may leave 1, or none; on-policy steps need none",
    wanted: "a number above 0, or none",
    schema: switchable,
    default: null,
  }),
  kl: setting<number>({
    group,
    flag: "--kl <weight>",
    help: "of the distance to the model that the training began with",
    wanted: "a number of at least 0",
    schema: number({ min: 0 }),
    default: 0,
  }),
  entropy: setting<number>({
    group,
    flag: "--entropy <weight>",
    help: "of a bonus for staying undecided",
    wanted: "a number of at least 0",
    schema: number({ min: 0 }),
    default: 0,
  }),
  maxGradNorm: setting<number | null>({
    group,
    flag: "--max-grad-norm <norm>",
    help: "gradients are scaled down to it, or none",
    wanted: "a number above 0, or none",
    schema: switchable,
    default: 1,
  }),
  weightDecay: setting<number>({
    group,
    flag: "--weight-decay <rate>",
    help: "of matrices",
    wanted: "a number of at least 0",
    schema: number({ min: 0 }),
    default: 0,
  }),
  from: setting<string | null>({
    group,
    flag: "--from <file|folder>",
    help: "samples to imitate: a run folder, or a samples.jsonl of one (sft alone)",
    wanted: "a file or a folder",
    schema: text.nullable(),
    default: null,
  }),
  minReward: setting<number | null>({
    group,
    flag: "--min-reward <reward>",
    help: "of the samples to imitate (default: all are)",
    wanted: "a number",
    schema: number({}).nullable(),
    default: null,
  }),
  batch: setting<number>({
    group,
    flag: "--batch <n>",
    help: "samples of an update (sft alone)",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 32,
  }),
  threads: setting<number | null>({
    group,
    flag: "--threads <n>",
    help: "of the engine and of the learner; the outcome depends on it (default: one for each core, 8 at most)",
    wanted: "a whole number from 1 to 64",
    schema: whole(1, 64).nullable(),
    default: null,
  }),
  evalEvery: setting<number>({
    group,
    flag: "--eval-every <steps>",
    help: "between evaluations on held-out tasks; 0: only before and after",
    wanted: "a whole number of at least 0",
    schema: whole(0),
    default: 20,
  }),
  evalTasks: setting<number>({
    group,
    flag: "--eval-tasks <n>",
    help: "of such an evaluation",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 210,
  }),
  evalSplit: setting<string | null>({
    group,
    flag: "--eval-split <name>",
    help: 'where held-out tasks come from (default: "test" where there is one, else the split that is trained on)',
    wanted: "the name of a split",
    schema: text.nullable(),
    default: null,
  }),
  finalTasks: setting<number>({
    group,
    flag: "--final-tasks <n>",
    help: "held-out tasks of the comparison of before and after",
    wanted: "a whole number of at least 2",
    schema: whole(2),
    default: 1050,
  }),
  checkpointEvery: setting<number>({
    group,
    flag: "--checkpoint-every <steps>",
    help: "between checkpoints; the last step always has one",
    wanted: "a whole number of at least 1",
    schema: whole(1),
    default: 10,
  }),
  resume: setting<string | null>({
    group,
    flag: "--resume <run>",
    help: "go on from the last checkpoint of a run folder, with its settings; --steps and --minutes may be given anew",
    wanted: "the folder of a training run",
    schema: text.nullable(),
    default: null,
  }),
} as const;

export type TrainSettingName = keyof typeof trainSettings;
export type TrainSettings = {
  readonly [Name in TrainSettingName]: (typeof trainSettings)[Name] extends Setting<infer T> ? T : never;
};
export const trainSettingNames = Object.keys(trainSettings) as readonly TrainSettingName[];
