// A trainer's logprobs laid over the training rows of an episode: the token that each belongs to,
// its distance from the logprob that was recorded when the token was sampled, and the lines that
// cannot be used. Shared by the server's counts and the page.

import { base64Bytes, type ShownSamples } from "./decode.ts";
import type { Difference, RowFault, TrainerLines } from "./wire.ts";

export const noDifference: Difference = Object.freeze({ tokens: 0, sum: 0, largest: 0 });

export type BranchOverlay = {
  readonly line: number;
  /**
   * Aligned with the tokens of the branch; NaN if the token is not trained, or the trainer has no
   * logprob.
   */
  readonly logprobs: Float32Array;
  readonly difference: Difference;
  /** Place of the largest difference in the branch; `null` if nothing could be compared. */
  readonly largestAt: number | null;
  /** Trained tokens for which the trainer has no logprob. */
  readonly missing: number;
};

export type EpisodeOverlay = {
  readonly branches: ReadonlyMap<number, BranchOverlay>;
  /** Lines that cannot be used, and rows without a line, as sentences. */
  readonly problems: readonly string[];
};

/** Bound for logprobs: they are not above 0, except for rounding. */
const mostLogprob = 0.01;

/**
 * A list of logprobs ends with the last token of its row, and begins where trainers begin: at the
 * first action, at the second token, or at the first. Any other length belongs to another row, and
 * none of it is shown.
 */
export function overlayOf({ samples }: Pick<ShownSamples, "samples">, { rows }: TrainerLines): EpisodeOverlay {
  const branches = new Map<number, BranchOverlay>();
  const problems: string[] = [];
  for (const { line, branch, logprobs: packed } of rows) {
    const sample = samples.find((one) => one.branch === branch);
    const given = new Float32Array(base64Bytes(packed));
    if (sample === undefined) {
      problems.push(`Line ${line} is for branch ${branch}, which is not a training row.`);
      continue;
    }
    const { length } = sample.tokens;
    const response = length - sample.sampledMask.indexOf(1);
    if (![response, length - 1, length].includes(given.length)) {
      problems.push(
        `Line ${line} has ${given.length} logprobs, and branch ${branch} has ${length} tokens, ${response} from the first action on: they do not belong together, and nothing of the line is shown.`,
      );
      continue;
    }
    const before = branches.get(branch);
    if (before !== undefined) problems.push(`Line ${line} replaces line ${before.line}: both are of branch ${branch}.`);
    branches.set(branch, { line, ...compared(sample, given) });
  }
  const bare = samples.filter(({ branch }) => !branches.has(branch)).map(({ branch }) => branch);
  if (rows.length === 0) problems.push("No line names this episode.");
  else if (bare.length > 0) problems.push(`Branch ${bare.join(", ")} has no line that can be used.`);
  return { branches, problems };
}

function compared(
  { tokens, lossMask, logprobs: sampled }: ShownSamples["samples"][number],
  given: Float32Array,
): Omit<BranchOverlay, "line"> {
  const start = tokens.length - given.length;
  const logprobs = new Float32Array(tokens.length).fill(NaN);
  let difference = noDifference;
  let [largestAt, missing]: [number | null, number] = [null, 0];
  for (const [at, isTrained] of lossMask.entries()) {
    if (isTrained !== 1) continue;
    const logprob = given[at - start] ?? NaN;
    if (!Number.isFinite(logprob) || logprob > mostLogprob) {
      missing++;
      continue;
    }
    logprobs[at] = logprob;
    const distance = Math.abs(logprob - (sampled?.[at] ?? NaN));
    if (!Number.isFinite(distance)) continue;
    if (largestAt === null || distance > difference.largest) largestAt = at;
    difference = plus(difference, { tokens: 1, sum: distance, largest: distance });
  }
  return { logprobs, difference, largestAt, missing };
}

export function plus(one: Difference, other: Difference): Difference {
  return {
    tokens: one.tokens + other.tokens,
    sum: one.sum + other.sum,
    largest: Math.max(one.largest, other.largest),
  };
}

/** A difference as a phrase; `null` if nothing was compared. */
export function differenceText({ tokens, sum, largest }: Difference): string | null {
  if (tokens === 0) return null;
  return `mean difference ${shortNumber(sum / tokens)}, largest ${shortNumber(largest)}`;
}

function shortNumber(value: number): string {
  return value !== 0 && value < 1e-3 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

/** Whose fault an unsuccessful episode may be, as a person marks it. */
export const markFaults = [
  "agent",
  "user",
  "environment",
  "infrastructure",
] as const satisfies readonly RowFault["fault"][];
