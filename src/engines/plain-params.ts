// Parameters that leave the distribution as it is, and sample nothing; callers override some of them.

import type { GenerationParams } from "./token-sampling.ts";

export const plainParams: GenerationParams = {
  maxNewTokens: 0,
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
  seed: 0,
};
