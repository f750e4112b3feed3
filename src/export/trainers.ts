// Rows of trainers: verl, tinker, TRL, Atropos, and tokens with labels. Each format consists
// of its columns and a function of a sample. A core sample covers all tokens; most trainers have
// masks and logprobs only for the response, which begins at the first sampled token. Every function
// throws a plain error for a sample that must not be exported (see `checkExportable`).

import type { Episode, Sample } from "../core/index.ts";
import {
  columns,
  double,
  doubles,
  floatLists,
  floats,
  int,
  intLists,
  ints,
  json,
  orNull,
  type RowOf,
  string,
} from "./columns.ts";
import {
  branchTurns,
  checkExportable,
  type ExportOrigin,
  labelsOf,
  logprobMeaning,
  sampleFacts,
  type SampleFacts,
  splitResponse,
  withRun,
  zeroWhereUnsampled,
} from "./samples.ts";

/**
 * `AgentLoopOutput` of verl's agent loop (verl/experimental/agent_loop/agent_loop.py, verl 0.9.1),
 * one per branch; since that version a loop may return a list of them.
 */
export const verlColumns = columns({
  prompt_ids: ints(),
  response_ids: ints(),
  response_mask: ints("the loss mask, aligned with `response_ids`: 0 where an earlier branch trains the token"),
  response_logprobs: orNull(floats(logprobMeaning)),
  reward_score: orNull(double()),
  num_turns: int("messages beside the system's: two for each engine call of the branch"),
  metrics: json<ReturnType<typeof secondsOf>>("seconds of the whole episode"),
  extra_fields: json<VerlExtraFields>("facts; `uid` is what verl compares rewards within"),
});

export type VerlRow = RowOf<typeof verlColumns>;

type VerlExtraFields = SampleFacts & {
  readonly uid: string;
  /**
   * verl's name for the rewards of the branch's turns, in order; empty if the grade has no turn
   * rewards.
   */
  readonly turn_scores: readonly number[];
} & ReturnType<typeof stepsOf>;

export function toVerlRow(sample: Sample, origin: ExportOrigin): VerlRow {
  const { prompt, response, lossMask, logprobs } = splitResponse(sample);
  const facts = sampleFacts(sample, origin);
  return {
    prompt_ids: [...prompt],
    response_ids: [...response],
    response_mask: [...lossMask],
    response_logprobs: logprobs,
    reward_score: sample.reward,
    num_turns: 2 * branchTurns(sample, origin),
    metrics: secondsOf(origin.episode),
    extra_fields: {
      ...facts,
      uid: withRun(origin.run, sample.groupId),
      turn_scores: facts.turn_rewards?.map(({ reward }) => reward ?? 0) ?? [],
      ...stepsOf(sample),
    },
  };
}

function secondsOf({ events }: Episode) {
  const seconds = (type: "turn" | "tool-result" | "grade"): number =>
    events.reduce((sum, event) => (event.type === type ? sum + event.durationMs / 1000 : sum), 0);
  return { generate_sequences: seconds("turn"), tool_calls: seconds("tool-result"), compute_score: seconds("grade") };
}

/** Oldest and newest weights of the sample; `null` unless every version is a whole number. */
function stepsOf({ weightRanges }: Sample) {
  const versions = weightRanges.flatMap(({ dispatch, reply }) => [dispatch ?? reply, reply ?? dispatch]);
  const steps = versions.map((version) => (/^\d{1,15}$/.test(version ?? "") ? Number(version) : Number.NaN));
  const known = steps.length > 0 && !steps.some(Number.isNaN);
  const of = (pick: (...steps: readonly number[]) => number): number | null =>
    known ? steps.reduce((one, other) => pick(one, other)) : null;
  return { min_global_steps: of(Math.min), max_global_steps: of(Math.max) };
}

/**
 * The parts of a tinker `Datum` (tinker 0.38): inputs without the last token, targets without the
 * first, and logprobs, advantages and mask aligned with the targets. As in tinker's cookbook
 * (rl/data_processing.py), the advantage is the reward minus the mean of the group, only on trained
 * tokens; that mean counts every episode once, however many samples it has. Nothing is divided by
 * K: the service sums over tokens, and each token is in one sample.
 */
export const tinkerColumns = columns({
  model_input: ints("all tokens but the last"),
  target_tokens: ints("all tokens but the first; what follows is aligned with it"),
  logprobs: orNull(floats(logprobMeaning)),
  advantages: floats("0.0 where the token does not enter the loss"),
  mask: floats("1.0 where the token enters the loss"),
  reward: double(),
  metadata: json<SampleFacts>(),
});

export type TinkerRow = RowOf<typeof tinkerColumns>;

/**
 * Also throws for a sample without a reward, and for one whose first token is trained: it could not
 * be a target.
 */
export function toTinkerRow(sample: Sample, origin: ExportOrigin): TinkerRow {
  checkExportable(sample, { allowTextDelta: false });
  const { reward, tokens, lossMask } = sample;
  if (reward === null || origin.groupMean === null)
    throw new Error(`Cannot export sample "${sample.id}" to tinker: it has no reward, and so no advantage.`);
  if (lossMask[0] === 1) {
    throw new Error(
      `Cannot export sample "${sample.id}" to tinker: its first token is trained, and nothing precedes it from which it could be predicted.`,
    );
  }
  const mask = Array.from(lossMask.subarray(1));
  // Rounded once, to the precision that is written.
  const advantage = Math.fround(reward - origin.groupMean);
  return {
    model_input: [...tokens.subarray(0, -1)],
    target_tokens: [...tokens.subarray(1)],
    logprobs: zeroWhereUnsampled(sample.logprobs?.subarray(1) ?? null),
    advantages: mask.map((isTrained) => (isTrained === 1 ? advantage : 0)),
    mask,
    reward,
    metadata: sampleFacts(sample, origin),
  };
}

/**
 * Return value of a rollout function of TRL's GRPO trainer, one row per sample
 * (trl/trainer/grpo_trainer.py, TRL 1.16). The trainer takes lists over rows; every further column
 * goes to the reward functions, which is where the reward comes from.
 */
export const trlColumns = columns({
  prompt_ids: ints(),
  completion_ids: ints(),
  logprobs: orNull(floats(logprobMeaning)),
  env_mask: ints("1 where the token enters the loss"),
  reward: orNull(double()),
  group_id: string(),
  metadata: json<SampleFacts>(),
});

export type TrlRow = RowOf<typeof trlColumns>;

export function toTrlRow(sample: Sample, origin: ExportOrigin): TrlRow {
  const { prompt, response, lossMask, logprobs } = splitResponse(sample);
  return {
    prompt_ids: [...prompt],
    completion_ids: [...response],
    logprobs,
    env_mask: [...lossMask],
    reward: sample.reward,
    group_id: withRun(origin.run, sample.groupId),
    metadata: sampleFacts(sample, origin),
  };
}

/**
 * Supervised training on exactly the sampled tokens. Trainers of the transformers family (TRL's SFT
 * trainer among them) accept such rows directly.
 */
export const sftTokensColumns = columns({
  input_ids: ints(),
  labels: ints("the token itself where it is trained, else -100; not shifted"),
  reward: orNull(double()),
  metadata: json<SampleFacts>(),
});

export type SftTokensRow = RowOf<typeof sftTokensColumns>;

export function toSftTokensRow(sample: Sample, origin: ExportOrigin): SftTokensRow {
  checkExportable(sample, { allowTextDelta: false });
  return {
    input_ids: [...sample.tokens],
    labels: labelsOf(sample),
    reward: sample.reward,
    metadata: sampleFacts(sample, origin),
  };
}

/** An impossible logprob that marks tokens without one. */
const noLogprob = 1;

/**
 * A group in the form that Atropos' server takes on `/scored_data` (`ScoredDataGroup`;
 * atroposlib/api/README.md, 0.4.0): lists over the samples of the group. A token that is sampled
 * but not trained (a later branch repeats it) loses its logprob here.
 */
export const atroposColumns = columns({
  tokens: intLists(),
  masks: intLists("the token itself where it is trained, else -100"),
  scores: doubles(),
  advantages: orNull(floatLists("null: left to the trainer, which compares the scores of the group")),
  ref_logprobs: orNull(floatLists()),
  inference_logprobs: orNull(floatLists("1.0 where the mask is -100; null when some sample has none")),
  messages: json<null>(),
  generation_params: json<null>(),
  overrides: json<readonly SampleFacts[]>("facts of each sample; no trainer acts upon them"),
  group_overrides: json<{ readonly group_id: string; readonly task_id: string }>(),
  images: json<null>(),
});

export type AtroposRow = RowOf<typeof atroposColumns>;

/**
 * The samples of one group, in order. Also throws a plain error without samples, and for a sample
 * without a reward.
 */
export function toAtroposRow(
  samples: readonly { readonly sample: Sample; readonly origin: ExportOrigin }[],
): AtroposRow {
  const [first] = samples;
  if (first === undefined) throw new Error("Cannot export a group to Atropos: it has no samples.");
  for (const { sample } of samples) checkExportable(sample, { allowTextDelta: false });
  const overrides = samples.map(({ sample, origin }) => sampleFacts(sample, origin));
  const logprobs = samples.map(({ sample }) => trainedLogprobs(sample));
  return {
    tokens: samples.map(({ sample }) => [...sample.tokens]),
    masks: samples.map(({ sample }) => labelsOf(sample)),
    scores: samples.map(({ sample }) => scoreOf(sample)),
    advantages: null,
    ref_logprobs: null,
    inference_logprobs: logprobs.every((list) => list !== null) ? logprobs : null,
    messages: null,
    generation_params: null,
    overrides,
    group_overrides: { group_id: overrides[0]?.group_id ?? first.sample.groupId, task_id: first.sample.taskId },
    images: null,
  };
}

function scoreOf(sample: Sample): number {
  if (sample.reward === null)
    throw new Error(`Cannot export sample "${sample.id}" to Atropos: it has no reward; leave out what was not graded.`);
  return sample.reward;
}

function trainedLogprobs({ logprobs, lossMask }: Sample): number[] | null {
  if (logprobs === null) return null;
  return Array.from(logprobs, (logprob, at) => (lossMask[at] === 1 ? logprob : noLogprob));
}
