// Helpers of the tests in this folder: a small model with random weights and ways to call it.

import { type ModelConfig, parameterLayout } from "../../learner/model/index.ts";
import { createRandom } from "../../lib/random.ts";

export const testConfig: ModelConfig = {
  vocabularySize: 64,
  hiddenSize: 32,
  layers: 2,
  heads: 4,
  keyValueHeads: 2,
  headSize: 16,
  feedForwardSize: 40,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  contextLength: 256,
};

/** Weights for which different prompts yield different answers. */
export function testWeights(seed: number): Float32Array {
  const random = createRandom(seed);
  const layout = parameterLayout(testConfig);
  const weights = new Float32Array(layout.size);
  for (const { shape, offset, size } of layout.parameters) {
    const scale = shape.length === 1 ? 0 : 2.5 / Math.sqrt(shape[1]!);
    for (let index = offset; index < offset + size; index++) {
      const centred = random.next() + random.next() - 1;
      weights[index] = shape.length === 1 ? 1 + centred / 2 : centred * scale;
    }
  }
  return weights;
}

export function testPrompt(length: number, seed: number): Uint32Array {
  const random = createRandom(seed);
  return Uint32Array.from({ length }, () => random.integer(testConfig.vocabularySize));
}
