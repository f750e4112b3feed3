// Samples in slime's layout: what its `Sample.from_dict` reads, one JSON object a line. The core sample covers all tokens;
// slime's masks and logprobs cover the response alone, which begins at the first sampled token.

import type { Episode, Sample } from "../core/index.ts";
import { type Columns, rowLine } from "./row-columns.ts";
import { splitResponse } from "./split-response.ts";

/** One training row as slime names it. `loss_mask` and `rollout_log_probs` have `response_length` entries. */
export type SlimeRow = {
  /** The episode's number in the run; rows of one episode share it, as slime has it. */
  readonly index: number;
  /** The group's number in the run. */
  readonly group_index: number;
  /** The same for all rows of an episode, so that a trainer averages within it. */
  readonly rollout_id: number;
  /** Text of what precedes the first action. */
  readonly prompt: string;
  /** Prompt and response. */
  readonly tokens: readonly number[];
  /** Text of everything from the first action on, observations included. */
  readonly response: string;
  readonly response_length: number;
  /** `null` when the episode was not graded. */
  readonly reward: number | null;
  readonly loss_mask: readonly number[];
  /** 0.0 where not sampled; `null` when the engine reported none. */
  readonly rollout_log_probs: readonly number[] | null;
  /** One per reply of the engine, in order; replies without a version are left out, as slime does. */
  readonly weight_versions: readonly string[];
  readonly status: "completed" | "truncated" | "aborted";
  readonly metadata: SlimeMetadata;
};

export type SlimeMetadata = {
  /** The environment's name; slime's metrics are split by it. */
  readonly source_name: string;
  readonly task_id: string;
  readonly group_id: string;
  readonly episode_id: string;
  readonly branch: number;
  /** 1/K for an episode with K samples: for trainers that average over rows and not over episodes. */
  readonly weight: number;
  readonly history_policy: Sample["historyPolicy"];
  readonly token_accounting: Sample["tokenAccounting"];
  /** Where observations are not what the template writes, beyond what `history_policy` says. */
  readonly deviations: Sample["deviations"];
  readonly stop_reason: string;
  /** How many problems the episode's actions had. */
  readonly problems: number;
  /** The grader's numbers of the episode, such as rules that it broke; none where it was not graded. */
  readonly metrics: Readonly<Record<string, number>>;
};

export type SlimeOrigin = {
  /** The episode's number in the run. */
  readonly index: number;
  readonly groupIndex: number;
  /** K: how many samples the episode has. */
  readonly sampleCount: number;
  readonly episode: Pick<Episode, "grade" | "outcome" | "problems" | "stopReason" | "task">;
};

export type SlimeOptions = {
  readonly decode: (tokens: Uint32Array) => string;
  /** Lets samples pass whose tokens are re-encoded text. Default: false. */
  readonly allowTextDelta?: boolean;
};

/**
 * The row of one sample. Throws a plain error when the sample's arrays are not aligned, when nothing in it was sampled, and
 * for text-delta accounting without `allowTextDelta`.
 */
export function toSlimeRow(sample: Sample, origin: SlimeOrigin, options: SlimeOptions): SlimeRow {
  const { prompt, response, lossMask, logprobs } = splitResponse(sample, options);
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
    status: statusOf(origin.episode.outcome),
    metadata: {
      source_name: origin.episode.task.environment,
      task_id: sample.taskId,
      group_id: sample.groupId,
      episode_id: sample.episodeId,
      branch: sample.branch,
      weight: 1 / origin.sampleCount,
      history_policy: sample.historyPolicy,
      token_accounting: sample.tokenAccounting,
      deviations: sample.deviations,
      stop_reason: origin.episode.stopReason,
      problems: origin.episode.problems.length,
      metrics: origin.episode.grade?.metrics ?? {},
    },
  };
}

export const slimeColumns: Columns<SlimeRow> = [
  { name: "index", type: "int" },
  { name: "group_index", type: "int" },
  { name: "rollout_id", type: "int" },
  { name: "prompt", type: "text" },
  { name: "tokens", type: "ints" },
  { name: "response", type: "text" },
  { name: "response_length", type: "int" },
  { name: "reward", type: "double" },
  { name: "loss_mask", type: "ints" },
  { name: "rollout_log_probs", type: "floats" },
  { name: "weight_versions", type: "texts" },
  { name: "status", type: "text" },
  { name: "metadata", type: "json" },
];

/** The row as one line of JSON, without the line end. Numbers are written as Python reads them, infinities included. */
export function slimeRowLine(row: SlimeRow): string {
  return rowLine(row, slimeColumns);
}

function statusOf(outcome: Episode["outcome"]): SlimeRow["status"] {
  switch (outcome) {
    case "completed":
    case "truncated":
    case "aborted":
      return outcome;
    case "failed":
      return "aborted";
    default:
      return outcome satisfies never;
  }
}
