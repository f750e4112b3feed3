// The loss: the input of a trainer for each sequence, the loss of one token with its derivatives,
// and the check that the logprobs of sampling and training agree. A sequence is not a sample:
// samples have rewards and masks, and `advantages.ts` and `cloning-learner.ts` make sequences of
// them.

import { agreementLimits } from "../statistics/index.ts";
export type LossSequence = {
  readonly tokens: Uint32Array;
  /** Places of the tokens that are in the loss; ascending, never 0. */
  readonly targets: Uint32Array;
  /**
   * One per target: its share of the loss. If the loss is a mean over tokens, they sum to 1 over a
   * whole update.
   */
  readonly weights: Float32Array;
  /** One per target: above 0 makes the token likelier, below 0 less likely. Cloning: 1. */
  readonly advantages: Float32Array;
  /** One per target, under the weights that sampled it. `null` if the loss has no clip. */
  readonly sampledLogprobs: Float32Array | null;
  /** One per target, under the reference weights. `null` if the loss has no such term. */
  readonly referenceLogprobs: Float32Array | null;
};

/** A sequence to be imitated at `targets`, each weighing `weight`. */
export function cloningSequence(tokens: Uint32Array, targets: Uint32Array, weight: number): LossSequence {
  return {
    tokens,
    targets,
    weights: new Float32Array(targets.length).fill(weight),
    advantages: new Float32Array(targets.length).fill(1),
    sampledLogprobs: null,
    referenceLogprobs: null,
  };
}

/** Results of one sequence of a call. */
export type SequenceOutcome = {
  /** One per target. */
  readonly logprobs: Float32Array;
  /** Entropy of the whole distribution at each target, in nats. */
  readonly entropies: Float32Array;
};

/** Sums over targets. */
export type LossSums = {
  readonly loss: number;
  /** Weighted sum of entropies. */
  readonly entropy: number;
  /** Weighted sum of distances to the reference. */
  readonly kl: number;
  readonly clipped: number;
  /**
   * Number of tokens whose weight was multiplied by the truncated ratio of their logprobs in
   * training and in sampling, because these differ. Default: the trainer does not correct.
   */
  readonly corrected?: number;
};

export type LossOptions = {
  /**
   * The distance from 1 beyond which a ratio earns nothing more. Default `null`: the loss uses no
   * ratio.
   */
  readonly clip?: { readonly low: number; readonly high: number } | null;
  /**
   * Coefficient of the distance to the reference: half the squared difference of logprobs. Over
   * tokens that the policy sampled, its gradient is that of KL(policy, reference). Default 0.
   */
  readonly kl?: number;
  /** Coefficient of the entropy bonus. Default 0. */
  readonly entropy?: number;
};

export type TokenTerms = {
  readonly weight: number;
  readonly advantage: number;
  /** Read only with a clip. */
  readonly sampledLogprob: number;
  /** Read only with `kl`. */
  readonly referenceLogprob: number;
};

type TokenLoss = {
  readonly loss: number;
  /** Derivative of the loss by the token's logprob. */
  readonly slope: number;
  /** Derivative of the loss by the entropy at the token. */
  readonly entropySlope: number;
  /** Distance to the reference; 0 without the term. */
  readonly kl: number;
  readonly isClipped: boolean;
};

export function tokenLoss(logprob: number, entropyHere: number, terms: TokenTerms, options: LossOptions): TokenLoss {
  const { weight, advantage } = terms;
  const { clip = null, kl = 0, entropy = 0 } = options;
  let loss = -advantage * logprob;
  let slope = -advantage;
  let isClipped = false;
  if (clip !== null) {
    const ratio = Math.exp(logprob - terms.sampledLogprob);
    isClipped = advantage > 0 ? ratio > 1 + clip.high : ratio < 1 - clip.low;
    const bound = advantage > 0 ? 1 + clip.high : 1 - clip.low;
    loss = -advantage * (isClipped ? bound : ratio);
    slope = isClipped ? 0 : -advantage * ratio;
  }
  let distance = 0;
  if (kl !== 0) {
    const gap = terms.referenceLogprob - logprob;
    distance = gap ** 2 / 2;
    loss += kl * distance;
    slope -= kl * gap;
  }
  loss -= entropy * entropyHere;
  return { loss: weight * loss, slope: weight * slope, entropySlope: -weight * entropy, kl: distance, isClipped };
}

export type LogprobAgreement = {
  /** Mean distance over all tokens in the loss. */
  readonly mean: number;
  readonly largest: number;
  /** Mean estimate of KL(sampling, training) in nats, from the sampled tokens; never negative. */
  readonly kl: number;
  /** Number of tokens compared. If it is 0, nothing disagrees and nothing is proven. */
  readonly tokens: number;
};

/**
 * The `index`-th outcome belongs to the `index`-th sequence. Sequences without sampled logprobs do
 * not count.
 */
export function logprobAgreement(
  sequences: readonly LossSequence[],
  outcomes: readonly SequenceOutcome[],
): LogprobAgreement {
  let [sum, largest, kl, tokens] = [0, 0, 0, 0];
  for (const [index, { sampledLogprobs }] of sequences.entries()) {
    const trained = outcomes[index]?.logprobs;
    if (sampledLogprobs === null || trained === undefined) continue;
    for (const [place, sampled] of sampledLogprobs.entries()) {
      const distance = Math.abs(sampled - trained[place]!);
      sum += distance;
      kl += Math.expm1(trained[place]! - sampled) - (trained[place]! - sampled);
      // NaN compares as neither larger nor smaller, so a missing logprob counts as a disagreement.
      largest = distance <= largest ? largest : distance;
      tokens += 1;
    }
  }
  return { mean: tokens === 0 ? 0 : sum / tokens, largest, kl: tokens === 0 ? 0 : kl / tokens, tokens };
}

/** Reason to stop training; `null` if the two agree. */
export function disagreement(
  { mean, largest }: Pick<LogprobAgreement, "mean" | "largest">,
  limits: Pick<LogprobAgreement, "mean" | "largest"> = agreementLimits,
): string | null {
  if (mean <= limits.mean && largest <= limits.largest) return null;
  return (
    `the logprobs of sampling and training differ by ${show(mean)} on average and ${show(largest)} at most, ` +
    `${show(limits.mean)} and ${show(limits.largest)} are allowed: the weights that sampled are not those ` +
    "that are trained, or tokens and masks do not belong together"
  );
}

function show(value: number): string {
  return value.toExponential(1);
}
