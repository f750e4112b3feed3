// Parameters that sample from the unmodified distribution; tests override some of them.

import { plainParams as nothing } from "./plain-params.ts";
import type { GenerationParams } from "./token-sampling.ts";

export const plainParams: GenerationParams = { ...nothing, maxNewTokens: 12, seed: 1 };
