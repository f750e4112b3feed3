// Weights to begin training from: seeded, and by default "induction-ready". Copying ids from earlier in a conversation is
// what a small tool-calling model does most, and what it takes longest to find by itself: with ordinary random weights a
// model of this size had not begun to copy after 0.7 million tokens. So two layers are given the circuit that copies
// (previous-token heads below, induction heads above); all of it is plain Qwen3 weights, and all of it is trained.

import { createRandom } from "../../lib/random.ts";
import { plantInductionHeads } from "./induction-heads.ts";
import type { ModelConfig } from "./model-config.ts";
import { parameterLayout } from "./parameter-layout.ts";

export type InitializeOptions = {
  readonly seed: number;
  /** Default true. Needs two layers or more. */
  readonly inductionHeads?: boolean;
};

/** The same config, options and version of this package give the same bits. */
export function initializeWeights(config: ModelConfig, options: InitializeOptions): Float32Array {
  const { seed, inductionHeads = true } = options;
  const gauss = gaussian(seed);
  const layout = parameterLayout(config);
  const weights = new Float32Array(layout.size);
  for (const { name, shape, offset, size } of layout.parameters) {
    const inputs = shape[1];
    const isResidual = name.endsWith("o_proj.weight") || name.endsWith("down_proj.weight");
    const isEmbedding = offset === layout.embedding;
    for (let index = offset; index < offset + size; index++) {
      if (inputs === undefined) weights[index] = 1;
      else if (isEmbedding) weights[index] = gauss() * 0.04;
      // What is added to the residual stream starts small, the smaller the more layers add to it.
      else weights[index] = gauss() / Math.sqrt(inputs * (isResidual ? 2 * config.layers : 1));
    }
  }
  if (inductionHeads && config.layers >= 2) plantInductionHeads(config, weights, gauss);
  return weights;
}

/** Normal deviates (Box and Muller), one for each two uniform numbers. */
function gaussian(seed: number): () => number {
  const { next } = createRandom(seed);
  return () => Math.sqrt(-2 * Math.log(next() + 1e-12)) * Math.cos(2 * Math.PI * next());
}
