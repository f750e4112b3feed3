// Turns to training rows: one sample per branch, every action trained in the first branch that
// holds it and masked in the later ones. The masks are made only here.

import type { DroppedTokens, Episode, EpisodeSamples, Sample, Trajectory, Turn } from "../core/index.ts";
import { branchesOf, joinPath } from "./recorder.ts";
import { conservationViolations } from "./check-samples.ts";
import { untrainedCounts, untrainedTokens } from "./constrained-tokens.ts";
import { discardedTurns, uncreditedTurns } from "./turn-rewards.ts";

export type SampleOrigin = Pick<
  Sample,
  "episodeId" | "groupId" | "taskId" | "reward" | "tokenAccounting" | "historyPolicy"
>;

export type ToSamplesOptions = {
  /** Reason for not training a turn; `null` to train it. Default: every turn is trained. */
  readonly dropTurn?: (turn: Turn) => DroppedTokens["reason"] | null;
};

/** A root-to-leaf path with something left to train. */
type TrainedBranch = {
  readonly path: readonly Turn[];
  /** Number of the branch among all branches. */
  readonly branch: number;
  readonly trained: readonly Turn[];
};

/**
 * Assigns turns to the branches that train them: each turn to exactly one, unless it is dropped or
 * sampled nothing.
 */
function trainedBranches(
  trajectory: Trajectory,
  dropTurn: NonNullable<ToSamplesOptions["dropTurn"]>,
): { readonly branches: readonly TrainedBranch[]; readonly dropped: readonly DroppedTokens[] } {
  const claimed = new Set<number>();
  const dropped: DroppedTokens[] = [];
  for (const turn of trajectory.turns) {
    const whole = dropTurn(turn);
    if (whole === null && !turn.constrained) continue;
    const count = turn.sampledTokens.length;
    const parts = whole === null ? untrainedCounts(turn) : [{ reason: whole, count }];
    if (whole !== null || countOf(parts) === count) claimed.add(turn.index);
    for (const part of parts) if (part.count > 0) dropped.push({ turn: turn.index, ...part });
  }
  const all = branchesOf(trajectory).map((path, branch) => ({
    path,
    branch,
    endsDropped: claimed.has(path.at(-1)?.index ?? -1),
  }));
  const branches: TrainedBranch[] = [];
  // Turns that a branch with a dropped end shares with another branch are trained in the other one,
  // which continues.
  for (const { path, branch } of all.toSorted((a, b) => Number(a.endsDropped) - Number(b.endsDropped))) {
    const trained = path.filter((turn) => !claimed.has(turn.index) && turn.sampledTokens.length > 0);
    if (trained.length === 0) continue;
    for (const turn of trained) claimed.add(turn.index);
    branches.push({ path, branch, trained });
  }
  return { branches, dropped };
}

/** The samples of a trajectory. A branch with nothing left to train has no sample. */
export function toSamples(
  trajectory: Trajectory,
  origin: SampleOrigin,
  { dropTurn = () => null }: ToSamplesOptions = {},
): EpisodeSamples {
  const { branches, dropped } = trainedBranches(trajectory, dropTurn);
  const samples = branches.map(({ path, branch, trained }) => sampleOf(path, new Set(trained), { ...origin, branch }));
  return { samples, dropped };
}

function sampleOf(
  path: readonly Turn[],
  trained: ReadonlySet<Turn>,
  origin: SampleOrigin & { branch: number },
): Sample {
  const tokens = joinPath(path);
  const sampledMask = new Uint8Array(tokens.length);
  const lossMask = new Uint8Array(tokens.length);
  const hasLogprobs = path.every((turn) => turn.logprobs !== null || turn.sampledTokens.length === 0);
  const logprobs = hasLogprobs ? new Float32Array(tokens.length).fill(Number.NaN) : null;
  const weightRanges: Sample["weightRanges"][number][] = [];
  const constrainedRanges: NonNullable<Sample["constrainedRanges"]>[number][] = [];
  const truncated = path.flatMap((turn) => turn.truncated?.logprobs ?? []);
  let at = 0;
  for (const turn of path) {
    at += turn.observationTokens.length;
    const end = at + turn.sampledTokens.length;
    sampledMask.fill(1, at, end);
    if (trained.has(turn)) lossMask.fill(1, at, end);
    if (turn.constrained) constrainedRanges.push(...applyConstraint(turn, lossMask.subarray(at, end), at));
    if (turn.logprobs !== null) logprobs?.set(turn.logprobs, at);
    for (const span of turn.weightSpans) {
      if (span.tokenCount === 0) continue;
      weightRanges.push({ ...span, start: at, end: at + span.tokenCount });
      at += span.tokenCount;
    }
    at = end;
  }
  return {
    id: `${origin.episodeId}/${origin.branch}`,
    ...origin,
    tokens,
    sampledMask,
    lossMask,
    logprobs,
    weightRanges,
    deviations: [...new Set(path.flatMap(({ deviation }) => deviation ?? []))],
    ...(constrainedRanges.length === 0 ? {} : { constrainedRanges }),
    ...(truncated.length === 0 ? {} : { truncatedLogprobs: truncated.includes("whole") ? "whole" : "kept" }),
  };
}

/**
 * A sample in columns: position, token id, loss mask (`1` trained, `s` sampled and masked, `.`
 * observed), logprob, text. Printed by failing tests and by `inspect --tokens`.
 */
export function dumpSample(sample: Sample, decode: (ids: Uint32Array) => string): string {
  const rows: string[] = [];
  for (let at = 0; at < sample.tokens.length; at++) {
    const mask = sample.lossMask[at] === 1 ? "1" : sample.sampledMask[at] === 1 ? "s" : ".";
    const logprob = sample.logprobs?.[at];
    const score = logprob === undefined || Number.isNaN(logprob) ? "" : logprob.toFixed(4);
    const text = JSON.stringify(decode(sample.tokens.subarray(at, at + 1)));
    rows.push(
      `${String(at).padStart(6)} ${String(sample.tokens[at]).padStart(7)} ${mask} ${score.padStart(9)} ${text}`,
    );
  }
  return rows.join("\n");
}

// Training rows of an episode. Aborted and failed episodes train nothing by default: their rewards
// are unknown, and an unknown reward is not zero.

/**
 * The training rows of an episode, and the sampled tokens that are in none of them, checked for
 * conservation; empty for an agent behind an API. Throws when a token would be lost or trained
 * twice.
 */
export function episodeSamples(episode: Episode): EpisodeSamples {
  const result = uncheckedSamples(episode);
  const violations = conservationViolations(episode.trajectory, result);
  if (violations.length > 0) {
    throw new Error(
      `Cannot create samples of episode "${episode.id}": ${violations.slice(0, 3).join(" ")} This is a bug of trainable-agents.`,
    );
  }
  return result;
}

/** Facts of an episode from which its samples follow. */
export type SampledEpisode = Pick<
  Episode,
  "id" | "groupId" | "task" | "outcome" | "reward" | "historyPolicy" | "trajectory" | "events"
>;

/** {@link episodeSamples} without the check, for rows that are compared with something else. */
export function uncheckedSamples(episode: SampledEpisode): EpisodeSamples {
  const origin = originOf(episode);
  if (origin === null) return { samples: [], dropped: [] };
  return toSamples(episode.trajectory, origin, { dropTurn: dropTurnOf(episode) });
}

/** The rows that an untrained episode would have, with everything masked, for display. */
export function untrainedSamples(episode: Episode): Sample[] {
  const origin = originOf(episode);
  const turns = episode.trajectory.turns.map((turn) => ({ ...turn, constrained: null }));
  const samples = origin === null ? [] : toSamples({ turns }, origin).samples;
  return samples.map((sample) => ({ ...sample, lossMask: new Uint8Array(sample.tokens.length) }));
}

/** `null` for an agent behind an API, whose tokens are not known. */
function originOf({ id, groupId, task, reward, historyPolicy }: SampledEpisode): SampleOrigin | null {
  if (historyPolicy === "no-tokens") return null;
  return { episodeId: id, groupId, taskId: task.id, reward, tokenAccounting: "token-exact", historyPolicy };
}

/**
 * Number and size of the training rows that {@link episodeSamples} makes, counted without making
 * them.
 */
export type SampleCounts = {
  readonly samples: number;
  readonly trainedTokens: number;
  /** Tokens of the longest row, prompt included. */
  readonly longest: number;
};

export function countSamples(episode: SampledEpisode): SampleCounts {
  const counts = { samples: 0, trainedTokens: 0, longest: 0 };
  if (episode.historyPolicy === "no-tokens") return counts;
  for (const { path, trained } of trainedBranches(episode.trajectory, dropTurnOf(episode)).branches) {
    const length = path.reduce((sum, turn) => sum + turn.observationTokens.length + turn.sampledTokens.length, 0);
    counts.samples++;
    for (const turn of trained)
      counts.trainedTokens += turn.sampledTokens.length - (turn.constrained ? countOf(untrainedCounts(turn)) : 0);
    counts.longest = Math.max(counts.longest, length);
  }
  return counts;
}

/** Masks the tokens of an action that a constraint keeps out of the loss. Returns its ranges in the sequence. */
function applyConstraint(turn: Turn, lossMask: Uint8Array, start: number): NonNullable<Sample["constrainedRanges"]> {
  untrainedTokens(turn)?.forEach((reason, place) => reason !== null && (lossMask[place] = 0));
  return turn.constrained?.ranges.map((range) => ({ start: start + range.start, end: start + range.end })) ?? [];
}

function countOf(parts: readonly { readonly count: number }[]): number {
  return parts.reduce((total, { count }) => total + count, 0);
}

function dropTurnOf(episode: SampledEpisode): (turn: Turn) => DroppedTokens["reason"] | null {
  const reason = dropReason(episode);
  const discarded = discardedTurns(episode);
  const restarted = new Set(episode.events.flatMap((event) => (event.type === "restart" ? event.turns : [])));
  const uncredited = uncreditedTurns(episode);
  // Every aborted turn of a trained episode is an attempt that was sampled again.
  const unread = (index: number) => (discarded.has(index) ? "discarded-turn" : null);
  return ({ index }) =>
    restarted.has(index) ? "restarted" : (reason ?? unread(index) ?? (uncredited.has(index) ? "uncredited" : null));
}

function dropReason(episode: Pick<Episode, "outcome" | "reward">): DroppedTokens["reason"] | null {
  if (episode.outcome === "failed") return "episode-failed";
  if (episode.outcome === "aborted") return "episode-aborted";
  return episode.reward === null ? "not-graded" : null;
}
