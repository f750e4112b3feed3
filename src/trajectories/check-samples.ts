// Checks of alignment and conservation, run by every export. Written independently of the code that
// makes samples, so that a wrong mask cannot agree with itself.

import type { EpisodeSamples, RoutedExperts, Sample, SamplingMaskPlace, Trajectory } from "../core/index.ts";
import { smallUint32Array } from "../lib/bytes.ts";
import { branchesOf } from "./recorder.ts";

/** Misaligned arrays of a sample, described in sentences; empty when all are aligned. */
export function alignmentViolations(sample: Sample): string[] {
  const { tokens, sampledMask, lossMask, logprobs } = sample;
  const length = tokens.length;
  const violations: string[] = [];
  const report = (text: string): void => {
    if (violations.length < 10) violations.push(`Sample "${sample.id}": ${text}`);
  };
  if (sampledMask.length !== length) report(`the sampled mask has ${sampledMask.length} entries for ${length} tokens.`);
  if (lossMask.length !== length) report(`the loss mask has ${lossMask.length} entries for ${length} tokens.`);
  if (logprobs !== null && logprobs.length !== length) report(`${logprobs.length} logprobs for ${length} tokens.`);
  const covered = new Uint8Array(length);
  for (const range of sample.weightRanges) {
    if (range.end - range.start !== range.tokenCount)
      report(`a weight range has ${range.end - range.start} places for ${range.tokenCount} tokens.`);
    for (let at = range.start; at < range.end; at++) covered[at] = (covered[at] ?? 0) + 1;
  }
  let last = 0;
  for (const { start, end } of sample.constrainedRanges ?? []) {
    if (!(start >= last && end > start && end <= length))
      report(`no tokens are at its constrained range ${start} to ${end}.`);
    for (let at = start; at < Math.min(end, length); at++) {
      if (sampledMask[at] !== 1) report(`token ${at} is constrained and was not sampled.`);
      // A forced token has nothing to learn: its logprob is 0 under any weights.
      if (lossMask[at] === 1 && logprobs?.[at] === 0)
        report(`token ${at} enters the loss and was forced by a constraint.`);
    }
    last = end;
  }
  for (let at = 0; at < length; at++) {
    const isSampled = sampledMask[at] === 1;
    if (lossMask[at] === 1 && !isSampled) report(`token ${at} enters the loss and was not sampled.`);
    if (logprobs !== null && Number.isNaN(logprobs[at]) === isSampled) {
      report(`token ${at} ${isSampled ? "was sampled and has no logprob" : "was not sampled and has a logprob"}.`);
    }
    if (covered[at] !== (isSampled ? 1 : 0)) report(`token ${at} is covered by ${covered[at]} weight ranges.`);
  }
  return violations;
}

/**
 * Errors in the accounting of an episode, described in sentences: every sampled token must be
 * trained exactly once, or be among the dropped ones. Empty when the accounting is right. A
 * violation must stop an export.
 */
export function conservationViolations(trajectory: Trajectory, result: EpisodeSamples): string[] {
  const violations: string[] = result.samples.flatMap(alignmentViolations);
  const trainedTimes = trajectory.turns.map((turn) => smallUint32Array(turn.sampledTokens.length));
  const branches = branchesOf(trajectory);
  for (const sample of result.samples) {
    const path = branches[sample.branch];
    if (path === undefined) {
      violations.push(`Sample "${sample.id}": the trajectory has no branch ${sample.branch}.`);
      continue;
    }
    let at = 0;
    let explained = 0;
    for (const turn of path) {
      const shown = turn.observationTokens;
      for (let place = 0; place < shown.length; place++, at++)
        if (sample.tokens[at] !== shown[place])
          violations.push(`Sample "${sample.id}": token ${at} is not what turn ${turn.index} was shown.`);
      for (let place = 0; place < turn.sampledTokens.length; place++, at++) {
        if (sample.tokens[at] !== turn.sampledTokens[place])
          violations.push(`Sample "${sample.id}": token ${at} is not what turn ${turn.index} sampled.`);
        if (sample.lossMask[at] === 1) {
          explained++;
          const times = trainedTimes[turn.index];
          if (times !== undefined) times[place] = (times[place] ?? 0) + 1;
        }
      }
    }
    if (at !== sample.tokens.length)
      violations.push(`Sample "${sample.id}": ${sample.tokens.length} tokens, but its branch has ${at}.`);
    const ones = countOnes(sample.lossMask);
    if (ones !== explained)
      violations.push(`Sample "${sample.id}": ${ones - explained} trained tokens belong to no action.`);
  }
  const [wholeTurns, partsOfTurns] = [new Map<number, number>(), new Map<number, number>()];
  for (const { turn, count, reason } of result.dropped) {
    const counts = reason === "forced" || reason === "constrained" ? partsOfTurns : wholeTurns;
    counts.set(turn, (counts.get(turn) ?? 0) + count);
  }
  for (const turn of trajectory.turns) {
    const whole = wholeTurns.get(turn.index) ?? null;
    if (whole !== null && whole !== turn.sampledTokens.length) {
      violations.push(
        `Turn ${turn.index}: ${whole} tokens are said to be dropped, it sampled ${turn.sampledTokens.length}.`,
      );
    }
    const kept = whole === null && turn.constrained ? keptOut(turn) : null;
    trainedTimes[turn.index]?.forEach((times, place) => {
      const expected = whole !== null || kept?.[place] === 1 ? 0 : 1;
      if (times !== expected)
        violations.push(`Turn ${turn.index}: sampled token ${place} is trained ${times} times, expected ${expected}.`);
    });
    const parts = partsOfTurns.get(turn.index) ?? 0;
    if (kept === null ? parts > 0 : parts !== countOnes(kept))
      violations.push(`Turn ${turn.index}: ${parts} tokens are said to be constrained or forced, and not as many are.`);
  }
  return violations;
}

/** One entry per sampled token: 1 if a constraint keeps it out of the loss. */
function keptOut({ constrained, logprobs, sampledTokens }: Trajectory["turns"][number]): Uint8Array {
  const { ranges = [], loss = "mask" } = constrained ?? {};
  const kept = new Uint8Array(sampledTokens.length).fill(loss === "drop" && ranges.length > 0 ? 1 : 0);
  for (const { start, end } of ranges)
    for (let at = start; at < end; at++) if (loss !== "train" || logprobs?.[at] === 0) kept[at] = 1;
  return kept;
}

/**
 * Number of ones in a mask. A plain loop: `reduce` costs six times as much, and masks are as long
 * as contexts.
 */
export function countOnes(mask: Uint8Array): number {
  let ones = 0;
  for (let at = 0; at < mask.length; at++) if (mask[at] === 1) ones++;
  return ones;
}

// Places of a sample's experts and kept ids: those of its turns in order, for trainers of mixture-of-experts
// models that replay the sampling server's routing. Bytes are read elsewhere (`store/`).

/**
 * The parts of a sample's experts, in order; `null` if no turn of its branch has any. Throws a
 * plain error when only some turns have experts, and when the number of rows is not that of all
 * tokens but the last.
 */
export function expertsOf(
  sample: Pick<Sample, "id" | "branch" | "tokens">,
  trajectory: Trajectory,
): readonly RoutedExperts[] | null {
  const path = branchesOf(trajectory)[sample.branch] ?? [];
  const parts = path.flatMap(({ routedExperts }) => routedExperts ?? []);
  if (parts.length === 0) return null;
  const missing = path.find(({ routedExperts }) => (routedExperts ?? null) === null);
  if (missing !== undefined) {
    throw new Error(
      `Cannot join the routed experts of sample "${sample.id}": turn ${missing.index} has none, others of its branch do.`,
    );
  }
  const { layers, topk } = parts[0]!;
  const odd = parts.find((part) => part.layers !== layers || part.topk !== topk);
  const rows = parts.reduce((sum, part) => sum + part.rows, 0);
  if (odd !== undefined || rows !== sample.tokens.length - 1) {
    throw new Error(
      `Cannot join the routed experts of sample "${sample.id}": ${rows} rows of ${layers} by ${topk} for ${sample.tokens.length} tokens` +
        `${odd === undefined ? "" : `, others of ${odd.layers} by ${odd.topk}`}; all tokens but the last have one.`,
    );
  }
  return parts;
}

/**
 * The parts of a sample's kept ids, in order, for all its sampled tokens; `null` if no turn of its
 * branch has any. Throws a plain error when only some turns have them.
 */
export function samplingMasksOf(
  sample: Pick<Sample, "id" | "branch">,
  trajectory: Trajectory,
): readonly SamplingMaskPlace[] | null {
  const path = (branchesOf(trajectory)[sample.branch] ?? []).filter(({ sampledTokens }) => sampledTokens.length > 0);
  const parts = path.flatMap(({ truncated }) => truncated?.mask ?? []);
  if (parts.length === 0) return null;
  const wrong = path.find(({ truncated, sampledTokens }) => truncated?.mask?.tokens !== sampledTokens.length);
  if (wrong === undefined) return parts;
  throw new Error(
    `Cannot join the kept ids of sample "${sample.id}": turn ${wrong.index} has them for ${wrong.truncated?.mask?.tokens ?? 0} of ` +
      `${wrong.sampledTokens.length} sampled tokens, and others of its branch have all.`,
  );
}
