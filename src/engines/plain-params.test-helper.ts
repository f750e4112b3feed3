// Parameters that sample from the unmodified distribution; tests override some of them.

import type { GenerationParams } from "./token-sampling.ts";

export const plainParams: GenerationParams = {
  maxNewTokens: 12,
  minNewTokens: 0,
  temperature: 1,
  topP: 1,
  topK: -1,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repetitionPenalty: 1,
  stopTokenIds: new Set(),
  logitBias: new Map(),
  seed: 1,
};
