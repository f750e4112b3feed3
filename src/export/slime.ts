// Rows of slime: its columns, and a function of a sample. A core sample covers all tokens; slime has
// masks and logprobs only for the response, which begins at the first sampled token.

import type { Episode, Sample } from "../core/index.ts";
import type { SampledEpisode } from "../trajectories/index.ts";
import { columns, double, floats, int, ints, json, orNull, type RowOf, rowLine, string, strings } from "./columns.ts";
import {
  constraintFacts,
  creditFacts,
  type ExportOrigin,
  logprobMeaning,
  sampleDigests,
  splitResponse,
  templateFacts,
  truncationFacts,
  turnRewardFacts,
} from "./samples.ts";

/**
 * Columns that slime's `Sample.from_dict` reads. `loss_mask` and `rollout_log_probs` have
 * `response_length` entries.
 */
export const slimeColumns = columns({
  index: int("number of the episode; rows of one episode (branches) share it"),
  group_index: int("number of the group"),
  rollout_id: int("as `index`, so that a trainer averages within an episode"),
  prompt: string("text before the first action"),
  tokens: ints("prompt and response"),
  response: string("text from the first action on, observations included"),
  response_length: int(),
  reward: orNull(double("null: the episode was not graded")),
  loss_mask: ints("1 where the token enters the loss"),
  rollout_log_probs: orNull(floats(logprobMeaning)),
  weight_versions: strings("one per reply of the engine that names one"),
  status: string("completed, truncated or aborted"),
  metadata: json<SlimeMetadata>("facts of episode and branch; the weights of an episode's rows add up to 1"),
});

export type SlimeRow = RowOf<typeof slimeColumns>;

export type SlimeMetadata = Readonly<ReturnType<typeof slimeMetadata>>;

export type SlimeOrigin = Pick<ExportOrigin, "index" | "groupIndex" | "sampleCount" | "templateKwargs"> & {
  readonly episode: SampledEpisode & Pick<Episode, "grade" | "problems" | "stopReason">;
};

export type SlimeOptions = {
  readonly decode: (tokens: Uint32Array) => string;
  /** Allows samples whose tokens are re-encoded text. Default: false. */
  readonly allowTextDelta?: boolean;
};

export function toSlimeRow(sample: Sample, origin: SlimeOrigin, options: SlimeOptions): SlimeRow {
  const { prompt, response, lossMask, logprobs } = splitResponse(sample, options);
  const { outcome } = origin.episode;
  return {
    index: origin.index,
    group_index: origin.groupIndex,
    rollout_id: origin.index,
    prompt: options.decode(prompt),
    tokens: [...sample.tokens],
    response: options.decode(response),
    response_length: response.length,
    reward: sample.reward,
    loss_mask: [...lossMask],
    rollout_log_probs: logprobs,
    weight_versions: sample.weightRanges.flatMap(({ reply, dispatch }) => reply ?? dispatch ?? []),
    status: outcome === "failed" ? "aborted" : outcome,
    metadata: slimeMetadata(sample, origin),
  };
}

function slimeMetadata(sample: Sample, { episode, sampleCount, templateKwargs = null }: SlimeOrigin) {
  return {
    /** The environment's name; slime splits its metrics by it. */
    source_name: episode.task.environment,
    task_id: sample.taskId,
    content_hash: episode.task.contentHash,
    group_id: sample.groupId,
    episode_id: sample.episodeId,
    branch: sample.branch,
    ...creditFacts(sample, { episode, sampleCount }),
    history_policy: sample.historyPolicy,
    ...templateFacts({ templateKwargs }),
    token_accounting: sample.tokenAccounting,
    /** Differences between observations and the template's output, beyond those of `history_policy`. */
    deviations: sample.deviations,
    ...constraintFacts(sample),
    ...truncationFacts(sample),
    stop_reason: episode.stopReason,
    /** Number of format errors of the episode's actions. */
    problems: episode.problems.length,
    /** The grader's metrics of the episode, such as broken rules; empty if it was not graded. */
    metrics: episode.grade?.metrics ?? {},
    /**
     * `[start, end)` in `tokens` of each action, and its reward; null if the grade has no turn
     * rewards.
     */
    turn_rewards: turnRewardFacts(sample, episode),
    turn_digests: sampleDigests(sample, episode.trajectory),
  };
}

/**
 * The row as one line of JSON, without the line end. Numbers are written in Python's form,
 * infinities included.
 */
export function slimeRowLine(row: SlimeRow): string {
  return rowLine(row, slimeColumns);
}
