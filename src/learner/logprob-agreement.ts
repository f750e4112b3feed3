// Whether sampling and training see the same model: the logprobs that the engine reported while sampling, against those of
// the training pass over the same tokens. On-policy the two differ by rounding alone; more means that masks, tokens or
// weights are not what they are taken for, and a gradient of such numbers teaches nonsense.

import type { LossSequence } from "./loss-sequence.ts";
import type { SequenceOutcome } from "./threads/thread-protocol.ts";

export type LogprobAgreement = {
  /** Mean distance over all tokens in the loss. */
  readonly mean: number;
  readonly largest: number;
  /** How many were compared. With 0 of them nothing disagrees, and nothing is shown. */
  readonly tokens: number;
};

/** What rounding explains: measured means are about 1e-6, and 1e-5 is the largest seen. */
export const agreementLimits = Object.freeze({ mean: 1e-4, largest: 2e-3 });

/** The `index`-th outcome is of the `index`-th sequence. Sequences without sampled logprobs do not count. */
export function logprobAgreement(
  sequences: readonly LossSequence[],
  outcomes: readonly SequenceOutcome[],
): LogprobAgreement {
  let [sum, largest, tokens] = [0, 0, 0];
  for (const [index, { sampledLogprobs }] of sequences.entries()) {
    const trained = outcomes[index]?.logprobs;
    if (sampledLogprobs === null || trained === undefined) continue;
    for (const [place, sampled] of sampledLogprobs.entries()) {
      const distance = Math.abs(sampled - trained[place]!);
      sum += distance;
      // No number is larger than any: a logprob that is missing disagrees.
      largest = distance <= largest ? largest : distance;
      tokens += 1;
    }
  }
  return { mean: tokens === 0 ? 0 : sum / tokens, largest, tokens };
}

/** Why training must stop; `null`: the two agree. */
export function disagreement({ mean, largest }: LogprobAgreement): string | null {
  if (mean <= agreementLimits.mean && largest <= agreementLimits.largest) return null;
  return (
    `the logprobs of sampling and training differ by ${show(mean)} on average and ${show(largest)} at most, ` +
    `${show(agreementLimits.mean)} and ${show(agreementLimits.largest)} are allowed: the weights that sampled are not those ` +
    "that are trained, or tokens and masks do not belong together"
  );
}

function show(value: number): string {
  return value.toExponential(1);
}
