// A model small enough for doubles and loops, with weights large enough that every part of it has
// an effect.

import { createRandom } from "../../lib/random.ts";
import type { ModelConfig } from "./model-config.ts";
import { parameterLayout } from "./parameter-layout.ts";

export const tinyConfig: ModelConfig = {
  vocabularySize: 40,
  hiddenSize: 32,
  layers: 2,
  heads: 3,
  keyValueHeads: 1,
  headSize: 16,
  feedForwardSize: 40,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  contextLength: 256,
};

export const pairedConfig: ModelConfig = { ...tinyConfig, heads: 4, keyValueHeads: 2 };

export function wildWeights(config: ModelConfig, seed: number): Float32Array {
  const random = createRandom(seed);
  const layout = parameterLayout(config);
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

export function randomTokens(config: ModelConfig, count: number, seed: number): Uint32Array {
  const random = createRandom(seed);
  return Uint32Array.from({ length: count }, () => random.integer(config.vocabularySize));
}
