// The shapes that this package itself trains and ships. Heads of 32: the smallest that the attention kernels fill their
// registers with.

import type { ModelConfig } from "./model-config.ts";

export type ModelShape = Omit<ModelConfig, "vocabularySize">;

const shared = { headSize: 32, ropeTheta: 1_000_000, normEpsilon: 1e-6, contextLength: 2048 } as const;

export const modelShapes = {
  /** About 1 million parameters with a vocabulary of 2,048. */
  small: { ...shared, hiddenSize: 128, layers: 4, heads: 4, keyValueHeads: 2, feedForwardSize: 384 },
  /** About 0.4 million with a vocabulary of 1,024: for tests, and for a first look. */
  nano: { ...shared, hiddenSize: 96, layers: 3, heads: 3, keyValueHeads: 1, feedForwardSize: 256 },
} as const satisfies Readonly<Record<string, ModelShape>>;
