// Parts of a sample that every format uses: its origin, the checks that no format skips, the facts
// of a row (the one place where our names become snake_case), labels, and prompt and response.
// Nothing is computed that a trainer would have to trust: masks and logprobs are slices of the
// sample's own.

import type { Episode, EpisodeEvent, Lineage, LineageCredit, Sample, Trajectory } from "../core/index.ts";
import { turnDigests, turnWeights } from "../store/writing.ts";
import {
  alignmentViolations,
  branchesOf,
  countSamples,
  type SampledEpisode,
  turnSpans,
} from "../trajectories/index.ts";

/**
 * Episode of a sample, with its place in the export. Numbers count over the whole export, so that
 * rows of several runs have different ones.
 */
export type ExportOrigin = {
  readonly episode: Episode;
  /** The episode's number; rows of one episode (branches) share it. */
  readonly index: number;
  readonly groupIndex: number;
  /**
   * Name of the run; `null` when only one is exported. Group and episode ids are unique only within
   * a run.
   */
  readonly run: string | null;
  /**
   * K: number of samples of the episode. A trainer that averages over rows gives each the weight
   * 1/K.
   */
  readonly sampleCount: number;
  /**
   * Mean reward of the group's graded episodes; each counts once, however many samples it has, and
   * those that the run removed from the group do not count. `null` when none is graded.
   */
  readonly groupMean: number | null;
  /** Variables that the chat template got; rows name them if there are any. @default none */
  readonly templateKwargs?: Readonly<Record<string, unknown>> | null;
};

export const logprobMeaning = "0.0 where not sampled; null when the engine reported none";

/** `template_kwargs` of a row, if the template got variables. */
export function templateFacts({ templateKwargs = null }: Pick<ExportOrigin, "templateKwargs">) {
  return templateKwargs === null || Object.keys(templateKwargs).length === 0 ? {} : { template_kwargs: templateKwargs };
}

/**
 * `truncated` of a row, if top-k, top-p or min-p truncated the distribution that its tokens were
 * sampled from. "kept": its logprobs are over the kept ids, and a trainer that renormalizes over them
 * (`sampling_mask`) computes the same distribution. "whole": they are over the whole vocabulary, which
 * is not the distribution that sampled.
 */
export function truncationFacts({ truncatedLogprobs: logprobs = null }: Pick<Sample, "truncatedLogprobs">) {
  return logprobs === null ? {} : { truncated: { logprobs } };
}

/**
 * `constrained` of a row, if a constraint restricted some of its tokens: their places as
 * `[start, end)` in all tokens of the row. Their logprobs are those of the restricted distribution,
 * not of the policy over its whole vocabulary.
 */
export function constraintFacts({ constrainedRanges: ranges = [] }: Pick<Sample, "constrainedRanges">) {
  const spans = ranges.map(({ start, end }) => [start, end] as const);
  return spans.length === 0 ? {} : { constrained: { spans, logprobs: "restricted" as const } };
}

/**
 * The weight of a row for trainers that average over rows and not over episodes, and the agent of the
 * outside program whose turns it trains, if the program had several. The weights of an episode add up to
 * 1: with K rows each is 1/K, or, with the credit "by-tokens", its share of the trained tokens.
 */
export function creditFacts(sample: Sample, origin: CreditOrigin): CreditFacts {
  const found = origin.episode.events.find((event) => event.type === "lineages");
  return found === undefined ? { weight: 1 / origin.sampleCount } : lineageFacts(sample, found, origin);
}

export type CreditFacts = {
  readonly weight: number;
  readonly lineage?: Pick<Lineage, "id" | "kind" | "parent"> & { readonly credit: LineageCredit };
};

function lineageFacts(
  sample: Sample,
  { credit, lineages }: Extract<EpisodeEvent, { readonly type: "lineages" }>,
  { episode, sampleCount }: CreditOrigin,
): CreditFacts {
  const last = turnSpans(sample, episode.trajectory).findLast(({ isTrained }) => isTrained)?.turn ?? -1;
  const trained = sample.lossMask.reduce((sum, one) => sum + one, 0);
  const weight = credit === "by-tokens" ? trained / countSamples(episode).trainedTokens : 1 / sampleCount;
  const lineage = lineages.find(({ turns }) => turns.includes(last));
  if (lineage === undefined) return { weight };
  return { weight, lineage: { id: lineage.id, kind: lineage.kind, parent: lineage.parent, credit } };
}

export type CreditOrigin = Pick<ExportOrigin, "sampleCount"> & { readonly episode: SampledEpisode };

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

export function episodeFacts({
  episode,
  index,
  groupIndex,
  run,
}: Pick<ExportOrigin, "episode" | "index" | "groupIndex" | "run">) {
  return {
    run,
    environment: episode.task.environment,
    split: episode.task.split,
    task_id: episode.task.id,
    /** SHA-256 of the task's definition: the same in every run of it. */
    content_hash: episode.task.contentHash,
    /** Unique over all runs of the export. */
    group_id: withRun(run, episode.groupId),
    group_index: groupIndex,
    episode_id: episode.id,
    /** Number of the episode in the export; the same for all rows of an episode. */
    rollout_id: index,
    /** Place in the group. */
    sample_index: episode.sampleIndex,
    outcome: episode.outcome as string,
    stop_reason: episode.stopReason as string,
    /** Number of format errors of the episode's actions. */
    problems: episode.problems.length,
  };
}

export type EpisodeFacts = Readonly<ReturnType<typeof episodeFacts>>;

export function sampleFacts(sample: Sample, origin: ExportOrigin) {
  return {
    ...episodeFacts(origin),
    branch: sample.branch,
    ...creditFacts(sample, origin),
    /** Engine calls on this branch. */
    turns: branchTurns(sample, origin),
    history_policy: sample.historyPolicy,
    ...templateFacts(origin),
    token_accounting: sample.tokenAccounting,
    /** Differences between observations and the template's output, beyond those of `history_policy`. */
    deviations: sample.deviations,
    ...constraintFacts(sample),
    ...truncationFacts(sample),
    /**
     * `[start, end)` in all tokens of the sample. Versions as named by the engine; `null` when it
     * names none.
     */
    weight_spans: sample.weightRanges.map(({ start, end, dispatch, reply }) => ({ start, end, dispatch, reply })),
    turn_rewards: turnRewardFacts(sample, origin.episode),
    turn_digests: sampleDigests(sample, origin.episode.trajectory),
  };
}

/**
 * Proof that a row holds what was sampled: the digest of a turn of its branch, and the facts that
 * the digest covers and the row does not hold elsewhere.
 */
export type TurnDigest = {
  readonly turn: number;
  /** `[start, end)` of the action in all tokens of the sample. */
  readonly start: number;
  readonly end: number;
  /** SHA-256 in hexadecimal. */
  readonly digest: string;
  /** Digest of the turn before in the episode, if that turn is not in the row; `null` for the first turn. */
  readonly previous?: string | null;
  readonly request_ids: readonly string[];
  /** Number of tokens, and the versions at dispatch and at reply, of each part of the action. */
  readonly weights: readonly (readonly [count: number, dispatch: string | null, reply: string | null])[];
};

export function sampleDigests(
  { episodeId, branch }: Pick<Sample, "episodeId" | "branch">,
  trajectory: Trajectory,
): readonly TurnDigest[] {
  const digests = turnDigests(episodeId, trajectory);
  const path = branchesOf(trajectory)[branch] ?? [];
  let end = 0;
  return path.map((turn, at) => {
    const { index, requestIds = [] } = turn;
    const start = end + turn.observationTokens.length;
    end = start + turn.sampledTokens.length;
    const previous = path[at - 1]?.index === index - 1 ? {} : { previous: digests[index - 1] ?? null };
    const own = { digest: digests[index]!, ...previous, request_ids: requestIds, weights: turnWeights(turn) };
    return { turn: index, start, end, ...own };
  });
}

/** The digests of all turns of an episode, for rows that hold no tokens, or those of a tree of turns. */
export function episodeDigests({ id, trajectory }: Pick<Episode, "id" | "trajectory">) {
  return turnDigests(id, trajectory).map((digest, turn) => ({ turn, digest }));
}

/** Places and rewards of the actions of the branch; `null` if the grade has no turn rewards. */
export function turnRewardFacts(sample: Sample, { grade, trajectory }: TurnGraded) {
  const rewards = grade?.turnRewards ?? null;
  if (rewards === null) return null;
  return turnSpans(sample, trajectory, rewards).map(({ turn, start, end, isTrained, reward }) => ({
    turn,
    start,
    end,
    /** False: an earlier branch trains the turn, and its reward counts there. */
    trained: isTrained,
    reward,
  }));
}

export type TurnGraded = Pick<Episode, "grade" | "trajectory">;

export type SampleFacts = Readonly<ReturnType<typeof sampleFacts>>;

/** Engine calls on the sample's branch. */
export function branchTurns(sample: Sample, { episode }: Pick<ExportOrigin, "episode">): number {
  return branchesOf(episode.trajectory)[sample.branch]?.length ?? 0;
}

/** Label that PyTorch losses ignore. */
const ignoredLabel = -100;

/** The token itself where it enters the loss, `ignoredLabel` elsewhere. Aligned with `tokens`, not shifted. */
export function labelsOf({ tokens, lossMask }: Sample): number[] {
  return Array.from(tokens, (token, at) => (lossMask[at] === 1 ? token : ignoredLabel));
}

/** Number of labels that enter the loss. */
export function countLabels(labels: readonly number[]): number {
  let count = 0;
  for (const label of labels) if (label !== ignoredLabel) count++;
  return count;
}

type SplitSample = {
  /** Tokens before the first action. */
  readonly prompt: Uint32Array;
  readonly response: Uint32Array;
  /** 1 where the token enters the loss. Aligned with `response`. */
  readonly lossMask: Uint8Array;
  /** 0 where not sampled. Aligned with `response`; `null` when the engine reported none. */
  readonly logprobs: readonly number[] | null;
};

/** Splits a sample at its first action. Throws like `checkExportable`. */
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

/** Replaces missing logprobs with 0, as trainers expect. */
export function zeroWhereUnsampled(logprobs: Float32Array | null): number[] | null {
  return logprobs === null ? null : Array.from(logprobs, (logprob) => (Number.isNaN(logprob) ? 0 : logprob));
}
