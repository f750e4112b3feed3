// Samples in slime's layout: what its `Sample.from_dict` reads, one JSON object a line. The core sample covers all tokens;
// slime's masks and logprobs cover the response alone, which begins at the first sampled token. Nothing is computed here
// that a trainer would have to trust: masks and logprobs are the sample's own, cut.

import type { Episode, Sample } from "../core/index.ts";
import { alignmentViolations } from "../trajectories/index.ts";

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
  readonly task_id: string;
  readonly episode_id: string;
  readonly branch: number;
  readonly history_policy: Sample["historyPolicy"];
  readonly token_accounting: Sample["tokenAccounting"];
  readonly stop_reason: string;
  /** How many problems the episode's actions had. */
  readonly problems: number;
};

export type SlimeOrigin = {
  /** The episode's number in the run. */
  readonly index: number;
  readonly groupIndex: number;
  readonly episode: Pick<Episode, "outcome" | "stopReason" | "problems">;
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
  refuse(sample, options);
  const start = sample.sampledMask.indexOf(1);
  if (start === -1) throw new Error(`Cannot export sample "${sample.id}": the policy sampled none of its tokens.`);
  const { tokens, logprobs } = sample;
  return {
    index: origin.index,
    group_index: origin.groupIndex,
    rollout_id: origin.index,
    prompt: options.decode(tokens.subarray(0, start)),
    tokens: [...tokens],
    response: options.decode(tokens.subarray(start)),
    response_length: tokens.length - start,
    reward: sample.reward,
    loss_mask: [...sample.lossMask.subarray(start)],
    rollout_log_probs:
      logprobs === null
        ? null
        : Array.from(logprobs.subarray(start), (logprob) => (Number.isNaN(logprob) ? 0 : shortest(logprob))),
    weight_versions: sample.weightRanges.flatMap(({ reply, dispatch }) => reply ?? dispatch ?? []),
    status: statusOf(origin.episode.outcome),
    metadata: {
      task_id: sample.taskId,
      episode_id: sample.episodeId,
      branch: sample.branch,
      history_policy: sample.historyPolicy,
      token_accounting: sample.tokenAccounting,
      stop_reason: origin.episode.stopReason,
      problems: origin.episode.problems.length,
    },
  };
}

/** The row as one line of JSON, without the line end. Numbers are written as Python reads them, infinities included. */
export function slimeRowLine(row: SlimeRow): string {
  const { rollout_log_probs: logprobs, reward } = row;
  const floats = {
    reward: reward === null ? "null" : pythonFloat(reward),
    rollout_log_probs: logprobs === null ? "null" : `[${logprobs.map(pythonFloat).join(",")}]`,
  };
  const written = Object.entries(row).map(([key, value]: [string, unknown]) => {
    const text = key === "reward" || key === "rollout_log_probs" ? floats[key] : JSON.stringify(value);
    return `"${key}":${text}`;
  });
  return `{${written.join(",")}}`;
}

function refuse(sample: Sample, options: SlimeOptions): void {
  if (sample.tokenAccounting === "text-delta" && options.allowTextDelta !== true) {
    throw new Error(
      `Cannot export sample "${sample.id}": its tokens are re-encoded text ("text-delta"), not what the engine sampled; ` +
        "allow text-delta accounting explicitly, or roll out with token-exact accounting.",
    );
  }
  const violations = alignmentViolations(sample);
  if (violations.length > 0)
    throw new Error(`Cannot export sample "${sample.id}": ${violations.slice(0, 3).join(" ")}`);
}

/** The shortest decimal that still is this float32: nine digits always suffice, and files shrink by half. */
function shortest(float32: number): number {
  for (let digits = 6; digits < 9; digits++) {
    const rounded = Number(float32.toPrecision(digits));
    if (Object.is(Math.fround(rounded), float32)) return rounded;
  }
  return Object.is(float32, -0) ? -0 : Number(float32.toPrecision(9));
}

function pythonFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity) return "Infinity";
  if (value === -Infinity) return "-Infinity";
  if (Object.is(value, -0)) return "-0.0";
  // A float list whose every entry looks like an integer would become an integer tensor.
  return Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : String(value);
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
