// The table of training settings besides those of a rollout: flags only. The defaults are those of
// the published run; docs/learner-log.md records the other values that were tried.

import { z } from "zod";
import {
  choice,
  custom,
  flag,
  named,
  number,
  numberWithin,
  section,
  type SettingValues,
  text,
  whole,
} from "./setting.ts";

const switchable = z.preprocess((value) => (value === "none" ? null : value), numberWithin({ above: 0 }).nullable());

export const trainSettings = section("Learning", {
  algorithm: choice("<name>", "grpo", "reinforce", "sft").help(
    "grpo (rewards compared within a group), reinforce (with all of a step), or sft (imitates samples, see --from)",
  ),
  minutes: number("<n>", 12, { above: 0 }).help(
    "for everything, the closing evaluation included; with fewer than 5 the defaults are those of a demonstration: in the bookshop " +
      "bookshop-nano learns which orders cannot be cancelled, in small steps",
  ),
  steps: whole().help("updates at most (default: as many as the minutes allow)"),
  groups: whole(16).help(
    "groups of a step that teach something; where all episodes earn the same, further tasks are run",
  ),
  groupSize: whole(8, { min: 2 }).help("episodes of a group"),
  maxGroups: whole().help("groups of a step at most, those that teach nothing included (default: twice --groups)"),
  order: choice("<how>", "live", "kind").help(
    "of tasks: live (cases oftener the more of their recent groups taught something), or kind (all kinds in turn)",
  ),
  cases: text("<names>", "names of kinds and cases, separated by commas").help(
    "trains and compares on tasks of these kinds or cases only, such as address,cancel/plain (default: all)",
  ),
  penalty: number("<advantage>", 0.25, { min: 0 }).help(
    "taken off the advantage of an episode for each rule that it broke",
  ),
  lr: number("<rate>", null, { above: 0 }).help("learning rate (default: 3e-4; 1e-3 for sft)"),
  warmUp: whole(5, { value: "<steps>", min: 0 }).help("over which the learning rate rises to its value"),
  normalize: choice("<how>", "std", "none").help(
    "divide advantages by the standard deviation of the rewards: std, or none",
  ),
  credit: choice("<how>", "outcome", "turn").help(
    "outcome: every token answers for its episode's reward; turn: for what was earned from its turn on, where grades say it",
  ),
  creditDiscount: number("<factor>", 1, { above: 0, max: 1 }).help(
    "what a reward is worth one turn earlier (--credit turn)",
  ),
  clip: custom("<share>", { default: null, expected: "a number above 0, or none", schema: switchable }).help(
    "how far the ratio to the sampling policy may leave 1, or none; on-policy steps need none",
  ),
  kl: number("<weight>", 0.1, { min: 0 }).help("of the distance to the model that the training began with"),
  entropy: number("<weight>", 0, { min: 0 }).help("of a bonus for staying undecided"),
  maxGradNorm: custom<number | null>("<norm>", {
    default: 1,
    expected: "a number above 0, or none",
    schema: switchable,
  }).help("gradients are scaled down to it, or none"),
  weightDecay: number("<rate>", 0, { min: 0 }).help("of matrices"),
  from: text("<file|folder>", "a file or a folder").help(
    "samples to imitate: a run folder, or a samples.jsonl of one (sft alone)",
  ),
  minReward: number("<reward>", null, {}).help("of the samples or recorded episodes to imitate (default: all are)"),
  fromExpert: text("<file|run>", "a module or a run folder").help(
    "makes a model for --env from nothing before it learns from rewards: clones a module's scripted expert, or recorded episodes",
  ),
  size: choice("<name>", "nano", "small").help("of that model: nano (0.4 million parameters) or small (1 million)"),
  cloneTokens: whole(null, { value: "<tokens>", min: 1000 }).help(
    "of conversations that it clones (default: as many as half of the minutes allow, 1000000 at most)",
  ),
  batch: whole(32).help("samples of an update (sft alone)"),
  python: text("<program>", "the path of a Python").help(
    "that trains a real model (--gguf, or --model with its weights), with torch, transformers, peft and gguf (default: the one of --install, else python3)",
  ),
  install: flag.help("puts these packages, about 6 GB, into a folder of its own if that Python lacks them"),
  rank: whole(16, { value: "<n>", max: 512 }).help("of the adapter (LoRA) that is trained of a real model"),
  threads: whole(null, { min: 1, max: 64 }).help(
    "of the engine and of the learner; the outcome depends on it (default: one for each core, 8 at most)",
  ),
  evalEvery: whole(20, { value: "<steps>", min: 0 }).help(
    "between evaluations on held-out tasks; 0: only before and after",
  ),
  evalTasks: whole(126).help("of such an evaluation"),
  evalSplit: named("a split").help(
    'where held-out tasks come from (default: "validation" or "test" where there is one, else the split that is trained on)',
  ),
  finalTasks: whole(525, { min: 2 }).help(
    "held-out tasks of the comparison of before and after, each run at temperature 1 and at 0; at most 52 for each of --minutes unless given",
  ),
  finalFrom: whole(0, { value: "<index>", min: 0 }).help(
    "first of the held-out tasks, to compare on tasks that nothing was tuned on",
  ),
  checkpointEvery: whole(10, { value: "<steps>" }).help("between checkpoints; the last step always has one"),
  resume: text("<run>", "the folder of a training run").help(
    "continue from the last checkpoint of a run folder, with its settings; --steps and --minutes may be given again",
  ),
});

export type TrainSettings = SettingValues<typeof trainSettings>;
