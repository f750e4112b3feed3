/** How an engine samples. Names follow the field; each engine translates them once. */
export type SamplingParams = {
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** -1: the whole vocabulary. */
  readonly topK: number;
  readonly minP: number;
  /** Per engine call; `null`: as much as the context allows. */
  readonly maxNewTokens: number | null;
  readonly repetitionPenalty: number;
  /** Per engine call, derived from (run seed, task, sample, turn); `null`: the engine's own randomness. */
  readonly seed: number | null;
  /** Engine-specific parameters, sent as they are (SGLang refuses names it does not know). */
  readonly extra: Readonly<Record<string, unknown>>;
};

/** Sampling from the policy itself, undistorted: what on-policy learning assumes. */
export const defaultSampling: SamplingParams = Object.freeze({
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  maxNewTokens: 1024,
  repetitionPenalty: 1,
  seed: null,
  extra: Object.freeze({}),
});
