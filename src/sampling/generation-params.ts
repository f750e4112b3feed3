// How one generation samples, as samplers understand it: everything filled in, nothing optional.

export type GenerationParams = {
  /** Bounded by the context already. */
  readonly maxNewTokens: number;
  /** Until so many are sampled, no stop token may be. */
  readonly minNewTokens: number;
  /** Never 0: greedy is `topK` 1 at temperature 1. */
  readonly temperature: number;
  readonly topP: number;
  /** -1: the whole vocabulary. */
  readonly topK: number;
  readonly minP: number;
  readonly frequencyPenalty: number;
  readonly presencePenalty: number;
  readonly repetitionPenalty: number;
  readonly stopTokenIds: readonly number[];
  /** Added to the logits of a token before sampling. */
  readonly logitBias: readonly (readonly [token: number, bias: number])[];
  readonly seed: number;
};
