// What every format takes from a sample: its origin, the checks that no format skips, the facts of a row (the one place where our
// names become snake_case), labels, and prompt and response. Nothing is computed that a trainer would have to trust: masks and
// logprobs are the sample's own, cut.

import type { Episode, Sample } from "../core/index.ts";
import { alignmentViolations, branchesOf } from "../trajectories/index.ts";

/** Numbers are counted over the whole export, so that rows of several runs do not meet. */
export type ExportOrigin = {
  readonly episode: Episode;
  /** The episode's number; rows of one episode (branches) share it. */
  readonly index: number;
  readonly groupIndex: number;
  /** Name of the run; `null` when only one is exported. Group and episode ids are unique within a run alone. */
  readonly run: string | null;
  /** K: how many samples the episode has. A trainer that averages over rows gives each the weight 1/K. */
  readonly sampleCount: number;
  /**
   * Mean reward of the group's graded episodes; each counts once, however many samples it has, and those
   * that the run took out of the group do not. `null` when none is graded.
   */
  readonly groupMean: number | null;
};

/**
 * Throws a plain error when the sample's arrays are not aligned, when the policy sampled none of its tokens, and for tokens
 * that are re-encoded text, which must be allowed explicitly.
 */
export function checkExportable(sample: Sample, options: { readonly allowTextDelta: boolean }): void {
  if (sample.tokenAccounting === "text-delta" && !options.allowTextDelta) {
    throw new Error(
      `Cannot export sample "${sample.id}": its tokens are re-encoded text ("text-delta"), not what the engine sampled; ` +
        "allow text-delta accounting explicitly, or roll out with token-exact accounting.",
    );
  }
  const violations = alignmentViolations(sample);
  if (violations.length > 0)
    throw new Error(`Cannot export sample "${sample.id}": ${violations.slice(0, 3).join(" ")}`);
  if (!sample.sampledMask.includes(1))
    throw new Error(`Cannot export sample "${sample.id}": the policy sampled none of its tokens.`);
}

/** An id that is unique over all runs of an export. */
export function withRun(run: string | null, id: string): string {
  return run === null ? id : `${run}/${id}`;
}

/** `[start, end)` in all tokens of the sample. Versions as the engine names them; `null` when it names none. */
export type WeightSpanFacts = {
  readonly start: number;
  readonly end: number;
  readonly dispatch: string | null;
  readonly reply: string | null;
};

export type EpisodeFacts = {
  readonly run: string | null;
  readonly environment: string;
  readonly split: string;
  readonly task_id: string;
  /** Unique over all runs of the export. */
  readonly group_id: string;
  readonly group_index: number;
  readonly episode_id: string;
  /** Number of the episode in the export; the same for all rows of an episode. */
  readonly rollout_id: number;
  /** Place in the group. */
  readonly sample_index: number;
  readonly outcome: string;
  readonly stop_reason: string;
  /** Number of format errors of the episode's actions. */
  readonly problems: number;
};

export type SampleFacts = EpisodeFacts & {
  readonly branch: number;
  /** 1/K for an episode with K samples. */
  readonly weight: number;
  /** Engine calls on this branch. */
  readonly turns: number;
  readonly history_policy: Sample["historyPolicy"];
  readonly token_accounting: Sample["tokenAccounting"];
  /** Where observations are not what the template writes, beyond what `history_policy` says. */
  readonly deviations: Sample["deviations"];
  readonly weight_spans: readonly WeightSpanFacts[];
};

export function episodeFacts(origin: Pick<ExportOrigin, "episode" | "index" | "groupIndex" | "run">): EpisodeFacts {
  const { episode, run } = origin;
  return {
    run,
    environment: episode.task.environment,
    split: episode.task.split,
    task_id: episode.task.id,
    group_id: withRun(run, episode.groupId),
    group_index: origin.groupIndex,
    episode_id: episode.id,
    rollout_id: origin.index,
    sample_index: episode.sampleIndex,
    outcome: episode.outcome,
    stop_reason: episode.stopReason,
    problems: episode.problems.length,
  };
}

export function sampleFacts(sample: Sample, origin: ExportOrigin): SampleFacts {
  return {
    ...episodeFacts(origin),
    branch: sample.branch,
    weight: 1 / origin.sampleCount,
    turns: branchTurns(sample, origin),
    history_policy: sample.historyPolicy,
    token_accounting: sample.tokenAccounting,
    deviations: sample.deviations,
    weight_spans: sample.weightRanges.map(({ start, end, dispatch, reply }) => ({ start, end, dispatch, reply })),
  };
}

/** Engine calls on the sample's branch. */
export function branchTurns(sample: Sample, { episode }: Pick<ExportOrigin, "episode">): number {
  return branchesOf(episode.trajectory)[sample.branch]?.length ?? 0;
}

/** What losses of the PyTorch world skip. */
const ignoredLabel = -100;

/** The token itself where it enters the loss, `ignoredLabel` elsewhere. Aligned with `tokens`, not shifted. */
export function labelsOf({ tokens, lossMask }: Sample): number[] {
  return Array.from(tokens, (token, at) => (lossMask[at] === 1 ? token : ignoredLabel));
}

/** Number of those that enter the loss. */
export function countLabels(labels: readonly number[]): number {
  let count = 0;
  for (const label of labels) if (label !== ignoredLabel) count++;
  return count;
}

type SplitSample = {
  /** What precedes the first action. */
  readonly prompt: Uint32Array;
  readonly response: Uint32Array;
  /** 1 where the token enters the loss. Aligned with `response`. */
  readonly lossMask: Uint8Array;
  /** 0 where not sampled. Aligned with `response`; `null` when the engine reported none. */
  readonly logprobs: readonly number[] | null;
};

/** Throws as `checkExportable` does. */
export function splitResponse(sample: Sample, options: { readonly allowTextDelta?: boolean } = {}): SplitSample {
  checkExportable(sample, { allowTextDelta: options.allowTextDelta ?? false });
  const start = sample.sampledMask.indexOf(1);
  return {
    prompt: sample.tokens.subarray(0, start),
    response: sample.tokens.subarray(start),
    lossMask: sample.lossMask.subarray(start),
    logprobs: zeroWhereUnsampled(sample.logprobs?.subarray(start) ?? null),
  };
}

/** A logprob that is not there becomes 0, as trainers have it. */
export function zeroWhereUnsampled(logprobs: Float32Array | null): number[] | null {
  return logprobs === null ? null : Array.from(logprobs, (logprob) => (Number.isNaN(logprob) ? 0 : logprob));
}
