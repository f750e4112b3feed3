// The table of training settings besides those of a rollout: flags only. The defaults are those of
// the published run; docs/learner-log.md records the other values that were tried.

import { z } from "zod";
import {
  address,
  choice,
  custom,
  flag,
  named,
  number,
  numberWithin,
  section,
  type SettingValues,
  text,
  variable,
  whole,
} from "../parts/setting.ts";

const switchable = z.preprocess((value) => (value === "none" ? null : value), numberWithin({ above: 0 }).nullable());

export const trainSettings = section("Learning", {
  algorithm: choice("<name>", "grpo", "reinforce", "sft").help(
    "grpo (compares rewards within a group), reinforce (compares them within a step), or sft (imitates samples; see --from)",
  ),
  minutes: number("<n>", 12, { above: 0 }).help(
    "time for everything, the final evaluation included; below 5, the defaults are those of a demonstration: in the bookshop " +
      "bookshop-nano learns which orders cannot be cancelled, in small steps",
  ),
  steps: whole().help("maximum number of updates (default: as many as --minutes allows)"),
  groups: whole(16).help(
    "groups with a learning signal per step; if all episodes of a group earn the same, further tasks are run",
  ),
  groupSize: whole(8, { min: 2 }).help("episodes per group"),
  maxGroups: whole().help(
    "maximum groups per step, including those without a learning signal (default: twice --groups)",
  ),
  order: choice("<how>", "live", "kind").help(
    "order of tasks: live (prefers cases whose recent groups had a learning signal), or kind (all kinds in turn)",
  ),
  cases: text("<names>", "names of kinds and cases, separated by commas").help(
    "train and compare only on tasks of these kinds or cases, such as address,cancel/plain (default: all)",
  ),
  penalty: number("<advantage>", 0.25, { min: 0 }).help(
    "subtracted from an episode's advantage for each rule that it broke",
  ),
  lr: number("<rate>", null, { above: 0 }).help("learning rate (default: 3e-4; 1e-3 for sft)"),
  warmUp: whole(5, { value: "<steps>", min: 0 }).help("steps over which the learning rate rises to its full value"),
  normalize: choice("<how>", "std", "none").help(
    "divide advantages by the standard deviation of the rewards: std, or none",
  ),
  credit: choice("<how>", "outcome", "turn").help(
    "outcome: every token is credited with its episode's reward; turn: with what was earned from its turn on, if grades reward turns",
  ),
  creditDiscount: number("<factor>", 1, { above: 0, max: 1 }).help(
    "factor by which a reward is discounted per earlier turn (with --credit turn)",
  ),
  clip: custom("<share>", { default: null, expected: "a number above 0, or none", schema: switchable }).help(
    "how far the probability ratio to the sampling policy may deviate from 1, or none; on-policy steps need none",
  ),
  kl: number("<weight>", 0.1, { min: 0 }).help("weight of the KL penalty for moving away from the initial model"),
  teacher: text("<engine>", "the name of an engine that scores").help(
    "learn from a teacher too: every sampled token is credited with the teacher's logprob minus the policy's (reverse KL); sglang, vllm, llama-cpp or embedded",
  ),
  teacherModel: text("<folder>", "a model folder or a GGUF file").help(
    "weights of the teacher (embedded: a model folder or a shipped model; llama-cpp: a GGUF file)",
  ),
  teacherUrl: address("an address like http://127.0.0.1:30000").help("server of the teacher (sglang, vllm)"),
  teacherApiKeyEnv: variable.help("environment variable with the key for the teacher's server"),
  teacherWeight: number("<weight>", 1, { min: 0 }).help("weight of the teacher's credit"),
  rewardWeight: number("<weight>", 1, { min: 0 }).help(
    "weight of the rewards' advantages beside a teacher; 0 learns from the teacher only",
  ),
  entropy: number("<weight>", 0, { min: 0 }).help("weight of the entropy bonus"),
  maxGradNorm: custom<number | null>("<norm>", {
    default: 1,
    expected: "a number above 0, or none",
    schema: switchable,
  }).help("norm to which larger gradients are scaled down, or none"),
  weightDecay: number("<rate>", 0, { min: 0 }).help("weight decay of matrices"),
  from: text("<file|folder>", "a file or a folder").help(
    "samples to imitate: a run folder, or the samples.jsonl of one (sft only)",
  ),
  minReward: number("<reward>", null, {}).help(
    "minimum reward of the samples or recorded episodes to imitate (default: imitate all)",
  ),
  fromExpert: text("<file|run>", "a module or a run folder").help(
    "make a model for --env from scratch before it learns from rewards, by cloning a module's scripted expert or recorded episodes",
  ),
  size: choice("<name>", "nano", "small").help(
    "size of the model that --from-expert makes: nano (0.4 million parameters) or small (1 million)",
  ),
  cloneTokens: whole(null, { value: "<tokens>", min: 1000 }).help(
    "tokens of conversations to clone (default: as many as half of --minutes allows, at most 1000000)",
  ),
  batch: whole(32).help("samples per update (sft only)"),
  python: text("<program>", "the path of a Python").help(
    "Python that trains a real model (--gguf, or --model with its weights), with torch, transformers, peft and gguf (default: the one of --install, else python3)",
  ),
  install: flag.help("install these packages, about 6 GB, into a separate folder if that Python lacks them"),
  rank: whole(16, { value: "<n>", max: 512 }).help("rank of the adapter (LoRA) that is trained for a real model"),
  threads: whole(null, { min: 1, max: 64 }).help(
    "threads of the engine and the learner; the result depends on their number (default: one per core, at most 8)",
  ),
  evalEvery: whole(20, { value: "<steps>", min: 0 }).help(
    "steps between evaluations on held-out tasks; 0: only before and after training",
  ),
  evalTasks: whole(126).help("held-out tasks in each of these evaluations"),
  evalSplit: named("a split").help(
    'split of the held-out tasks (default: "validation" or "test" if there is one, else the training split)',
  ),
  finalTasks: whole(525, { min: 2 }).help(
    "held-out tasks for the comparison before and after training, each run at temperature 1 and at 0; unless given, at most 52 per minute of --minutes",
  ),
  finalFrom: whole(0, { value: "<index>", min: 0 }).help(
    "index of the first held-out task, to compare on tasks that were not used for tuning",
  ),
  checkpointEvery: whole(10, { value: "<steps>" }).help("steps between checkpoints; the last step always has one"),
  resume: text("<run>", "the folder of a training run").help(
    "continue from the last checkpoint of a run folder, with its settings; --steps and --minutes may be given again",
  ),
});

export type TrainSettings = SettingValues<typeof trainSettings>;
