// Checks of alignment and conservation, run by every export. Written independently of the code that
// makes samples, so that a wrong mask cannot agree with itself.

import type { EpisodeSamples, Sample, Trajectory } from "../core/index.ts";
import { smallUint32Array } from "../lib/bytes.ts";
import { branchesOf } from "./branches.ts";

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
  const droppedTurns = new Map(result.dropped.map((drop) => [drop.turn, drop.count]));
  for (const turn of trajectory.turns) {
    const expected = droppedTurns.has(turn.index) ? 0 : 1;
    const count = droppedTurns.get(turn.index);
    if (count !== undefined && count !== turn.sampledTokens.length) {
      violations.push(
        `Turn ${turn.index}: ${count} tokens are said to be dropped, it sampled ${turn.sampledTokens.length}.`,
      );
    }
    trainedTimes[turn.index]?.forEach((times, place) => {
      if (times !== expected)
        violations.push(`Turn ${turn.index}: sampled token ${place} is trained ${times} times, expected ${expected}.`);
    });
  }
  return violations;
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
