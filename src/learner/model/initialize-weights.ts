// Initial weights: seeded, and by default "induction-ready". Copying ids from earlier in a
// conversation is the most frequent skill of a small tool-calling model, and the slowest to emerge:
// with ordinary random weights a model of this size had not begun to copy after 0.7 million tokens.
// So two layers are given the circuit that copies (previous-token heads below, induction heads
// above); all of it is plain Qwen3 weights, and all of it is trained.

import { createRandom } from "../../lib/random.ts";
import type { ModelConfig } from "./model-config.ts";
import { parameterLayout, type WeightMatrix } from "./parameter-layout.ts";

export type InitializeOptions = {
  readonly seed: number;
  /** Default true. Needs two layers or more. */
  readonly inductionHeads?: boolean;
};

/** The same config, options and package version give the same bits. */
export function initializeWeights(config: ModelConfig, options: InitializeOptions): Float32Array {
  const { seed, inductionHeads = true } = options;
  const gauss = gaussian(seed);
  const layout = parameterLayout(config);
  const weights = new Float32Array(layout.size);
  for (const { name, shape, offset, size } of layout.parameters) {
    const inputs = shape[1];
    const isResidual = name.endsWith("o_proj.weight") || name.endsWith("down_proj.weight");
    const isEmbedding = offset === layout.embedding.offset;
    for (let index = offset; index < offset + size; index++) {
      if (inputs === undefined) weights[index] = 1;
      else if (isEmbedding) weights[index] = gauss() * 0.04;
      // Matrices that add to the residual stream start small, and smaller with more layers.
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

// Rewrites random weights so that the first two layers copy what followed the last occurrence of a
// token.
//
// 1. A constant vector is added to every embedding. Qwen3 has no biases; this gives heads a fixed
// direction to use instead.
// 2. Layer 0: heads that attend to the token 1 or 2 places before. Queries and keys consist only of
// the constant, rotated against each other by that many places on the fastest rotary frequencies.
// They carry the earlier token's identity along as a vector of their own.
// 3. Layer 1: heads whose query is a token's identity as layer 0 reads it, and whose key is what
// layer 0 brought from the token before. They attend to what followed an earlier occurrence, match
// only content (the slow frequencies, which do not turn with distance), and write what they find as
// a prediction.

/** Found by measurement on copying tasks, with the frequencies of theta 1e6. */
const embeddingScale = 3;
const constantSize = 0.9;
const feedForwardScale = 0.15;
const outputScale = 0.3;
const fastFrequencies = 4;
const slowBelow = 0.02;
const positionGain = 2;
const contentGain = 3;
const carriedSize = 0.2;
const predictionSize = 2;

/** Changes `weights` in place. The config must have at least two layers. */
function plantInductionHeads(config: ModelConfig, weights: Float32Array, gauss: () => number): void {
  const layout = parameterLayout(config);
  const { hiddenSize, headSize, heads, keyValueHeads, feedForwardSize, vocabularySize } = config;
  const half = headSize / 2;
  const group = heads / keyValueHeads;
  const queryWidth = heads * headSize;
  const { embedding } = layout;
  const [first, second] = [layout.layers[0]!, layout.layers[1]!];
  const frequency = (index: number): number => config.ropeTheta ** ((-2 * (index % half)) / headSize);
  const constant = Float64Array.from({ length: hiddenSize }, () => (gauss() > 0 ? 1 : -1) / Math.sqrt(hiddenSize));
  const scale = (offset: number, count: number, factor: number): void => {
    for (let index = offset; index < offset + count; index++) weights[index]! *= factor;
  };
  /** Makes rows of a matrix blind to the constant. */
  const project = ({ offset, outputs }: WeightMatrix): void => {
    for (let row = offset; row < offset + outputs * hiddenSize; row += hiddenSize) {
      const along = constant.reduce((sum, value, index) => sum + value * weights[row + index]!, 0);
      constant.forEach((value, index) => (weights[row + index]! -= along * value));
    }
  };

  for (let row = embedding.offset; row < embedding.offset + vocabularySize * hiddenSize; row += hiddenSize) {
    scale(row, hiddenSize, embeddingScale);
    constant.forEach((value, index) => (weights[row + index]! += constantSize * value));
  }
  for (const [index, layer] of layout.layers.entries()) {
    scale(layer.down.offset, hiddenSize * feedForwardSize, feedForwardScale);
    scale(layer.output.offset, hiddenSize * queryWidth, outputScale);
    const gain = index === 0 ? positionGain : contentGain;
    weights.fill(gain, layer.queryNorm, layer.queryNorm + headSize);
    weights.fill(gain, layer.keyNorm, layer.keyNorm + headSize);
  }

  // Layer 0: each of the first two key heads has a head that looks 1 place back, the first also one that looks 2 back.
  const keyHeads = Math.min(2, keyValueHeads);
  const lookBack = [
    { head: 0, places: 1 },
    ...(group > 1 ? [{ head: 1, places: 2 }] : []),
    ...(keyHeads > 1 ? [{ head: group, places: 1 }] : []),
  ];
  const alongConstant = (offset: number, row: number, amount: number): void => {
    const start = offset + row * hiddenSize;
    constant.forEach((value, index) => (weights[start + index] = weights[start + index]! * 0.3 + amount * value));
  };
  for (let index = 0; index < half; index++) {
    const size = index < fastFrequencies ? 1.5 : 0;
    for (let head = 0; head < keyHeads; head++) {
      alongConstant(first.key.offset, head * headSize + index, size * Math.cos(frequency(index)));
      alongConstant(first.key.offset, head * headSize + half + index, size * Math.sin(frequency(index)));
    }
    for (const { head, places } of lookBack) {
      const angle = frequency(index) * (places - 1);
      alongConstant(first.query.offset, head * headSize + index, size * Math.cos(angle));
      alongConstant(first.query.offset, head * headSize + half + index, -size * Math.sin(angle));
    }
  }
  project(first.value);
  for (let row = 0; row < hiddenSize; row++) {
    for (const { head } of lookBack) {
      for (let index = 0; index < headSize; index++) {
        weights[first.output.offset + row * queryWidth + head * headSize + index] =
          (gauss() * carriedSize) / Math.sqrt(hiddenSize);
      }
    }
  }

  // Layer 1: one induction head for each of those key heads.
  for (let keyHead = 0; keyHead < keyHeads; keyHead++) {
    const head = keyHead * group;
    for (let index = 0; index < headSize; index++) {
      const isSlow = frequency(index) < slowBelow ? 1 : 0;
      const query = second.query.offset + (head * headSize + index) * hiddenSize;
      const key = second.key.offset + (keyHead * headSize + index) * hiddenSize;
      const value = (keyHead * headSize + index) * hiddenSize;
      for (let column = 0; column < hiddenSize; column++) {
        const identity = weights[first.value.offset + value + column]!;
        const carried = weights[first.output.offset + column * queryWidth + head * headSize + index]!;
        weights[query + column] = isSlow * identity + 0.1 * weights[query + column]!;
        weights[key + column] = isSlow * carried * 5 + 0.1 * weights[key + column]!;
        weights[second.output.offset + column * queryWidth + head * headSize + index] =
          predictionSize * weights[second.value.offset + value + column]!;
      }
    }
  }
  project(second.query);
  project(second.key);
  project(second.value);
}
