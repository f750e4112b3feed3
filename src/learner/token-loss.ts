// The loss of one token and its derivatives, for every algorithm: what differs between cloning, REINFORCE and GRPO is which
// terms are on and what the advantages are.
//
//   loss = weight * (surrogate + kl * k3 - entropy * H)
//   surrogate = -advantage * logprob                      without a clip
//             = -min(ratio * advantage, clamp(ratio) * advantage)   with one; ratio = exp(logprob - sampled)
//   k3 = exp(reference - logprob) - (reference - logprob) - 1       never negative, unbiased for KL(policy || reference)
//
// Without a clip the surrogate's derivative is that of the ratio form where policy and sampler are the same, so on-policy
// training needs no ratio.

export type LossOptions = {
  /** How far a ratio may leave 1 before it earns no more. Default `null`: no ratio. */
  readonly clip?: { readonly low: number; readonly high: number } | null;
  /** Of the distance to the reference. Default 0. */
  readonly kl?: number;
  /** Of the entropy, which the loss rewards. Default 0. */
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

export type TokenLoss = {
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
    distance = Math.exp(gap) - gap - 1;
    loss += kl * distance;
    slope += kl * (1 - Math.exp(gap));
  }
  loss -= entropy * entropyHere;
  return { loss: weight * loss, slope: weight * slope, entropySlope: -weight * entropy, kl: distance, isClipped };
}
