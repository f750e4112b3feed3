// The place of each parameter in the one flat array that holds all weights of a model, under the
// names that Hugging Face gives them. With one array, an update, a hot swap and an exchange between
// threads are one copy. Queries, keys and values are side by side, and so do gate and up, so that
// each is one matrix to the kernels.

import type { Kernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";

export type Parameter = {
  readonly name: string;
  /** [outputs, inputs] of a matrix, [size] of a vector. */
  readonly shape: readonly number[];
  /** Offset from the beginning, in floats. */
  readonly offset: number;
  readonly size: number;
};

/** [outputs][inputs], from `offset` floats on. */
export type WeightMatrix = { readonly offset: number; readonly outputs: number; readonly inputs: number };

/** Norms by their offsets in floats. */
export type LayerLayout = {
  readonly inputNorm: number;
  readonly query: WeightMatrix;
  readonly key: WeightMatrix;
  readonly value: WeightMatrix;
  readonly queryNorm: number;
  readonly keyNorm: number;
  readonly output: WeightMatrix;
  readonly feedForwardNorm: number;
  /** Gate above up: [2 * feedForwardSize][hiddenSize]. */
  readonly gateUp: WeightMatrix;
  readonly down: WeightMatrix;
};

export type ParameterLayout = {
  /** Number of floats; the length of every parameter is a multiple of 4. */
  readonly size: number;
  /** Parameters in the order of their offsets, without gaps. */
  readonly parameters: readonly Parameter[];
  /** Every matrix once; gate and up count as one. */
  readonly matrices: readonly WeightMatrix[];
  readonly embedding: WeightMatrix;
  readonly layers: readonly LayerLayout[];
  readonly finalNorm: number;
};

export function parameterLayout(config: ModelConfig): ParameterLayout {
  const { hiddenSize, headSize, feedForwardSize } = config;
  const queryWidth = config.heads * headSize;
  const keyWidth = config.keyValueHeads * headSize;
  const parameters: Parameter[] = [];
  const matrices: WeightMatrix[] = [];
  let size = 0;
  const vector = (name: string, ...shape: readonly number[]): number => {
    const count = shape.reduce((product, length) => product * length, 1);
    parameters.push({ name: `model.${name}.weight`, shape, offset: size, size: count });
    size += count;
    return size - count;
  };
  /** One matrix to the kernels, made of one parameter of this shape for each name. */
  const matrix = (names: readonly string[], outputs: number, inputs: number): WeightMatrix => {
    const whole = { offset: size, outputs: names.length * outputs, inputs };
    for (const name of names) vector(name, outputs, inputs);
    matrices.push(whole);
    return whole;
  };

  const embedding = matrix(["embed_tokens"], config.vocabularySize, hiddenSize);
  // Fields are evaluated, and so placed, in the order in which they are written.
  const layers = Array.from({ length: config.layers }, (_, index): LayerLayout => {
    const layer = `layers.${index}`;
    return {
      inputNorm: vector(`${layer}.input_layernorm`, hiddenSize),
      query: matrix([`${layer}.self_attn.q_proj`], queryWidth, hiddenSize),
      key: matrix([`${layer}.self_attn.k_proj`], keyWidth, hiddenSize),
      value: matrix([`${layer}.self_attn.v_proj`], keyWidth, hiddenSize),
      queryNorm: vector(`${layer}.self_attn.q_norm`, headSize),
      keyNorm: vector(`${layer}.self_attn.k_norm`, headSize),
      output: matrix([`${layer}.self_attn.o_proj`], hiddenSize, queryWidth),
      feedForwardNorm: vector(`${layer}.post_attention_layernorm`, hiddenSize),
      gateUp: matrix([`${layer}.mlp.gate_proj`, `${layer}.mlp.up_proj`], feedForwardSize, hiddenSize),
      down: matrix([`${layer}.mlp.down_proj`], hiddenSize, feedForwardSize),
    };
  });
  const finalNorm = vector("norm", hiddenSize);
  return { size, parameters, matrices, embedding, layers, finalNorm };
}

/**
 * Packs every matrix for products with rows. All arguments are pointers. `forward`: outputs from
 * inputs; `backward`: gradients of inputs from gradients of outputs.
 */
export function packWeights(
  kernels: Kernels,
  { matrices }: ParameterLayout,
  pointers: { readonly weights: number; readonly forward: number; readonly backward?: number },
): void {
  const { weights, forward, backward } = pointers;
  for (const { offset, outputs, inputs } of matrices) {
    const at = offset * 4;
    kernels.packColumns(weights + at, inputs, inputs, outputs, forward + at);
    if (backward !== undefined) kernels.packRows(weights + at, inputs, outputs, inputs, backward + at);
  }
}

/**
 * Operations of a forward pass on weights. All arguments are pointers except rows, sizes, and
 * offsets of norms.
 */
export function forwardOperations(
  kernels: Kernels,
  { weights, panels, epsilon }: { readonly weights: number; readonly panels: number; readonly epsilon: number },
) {
  return {
    normalize: (x: number, norm: number, y: number, scales: number, rows: number, size: number): void =>
      kernels.normalize(x, weights + norm * 4, y, scales, rows, size, epsilon),
    /** y[rows][outputs] = x[rows][inputs] * transposed matrix, or y += that. */
    project: (rows: number, x: number, { offset, outputs, inputs }: WeightMatrix, y: number, add = false): void =>
      kernels.multiply(rows, outputs, inputs, x, inputs, panels + offset * 4, inputs, y, outputs, add ? 1 : 0),
  };
}

/** Fills [position][headSize / 2] of both arrays, for as many positions as they hold. */
export function fillRotaryTable(config: ModelConfig, cosines: Float32Array, sines: Float32Array): void {
  const half = config.headSize / 2;
  for (let index = 0; index < half; index++) {
    const power = Math.fround(config.ropeTheta ** Math.fround((2 * index) / config.headSize));
    const frequency = Math.fround(1 / power);
    for (let position = 0; position * half < cosines.length; position++) {
      const angle = Math.fround(position * frequency);
      cosines[position * half + index] = Math.cos(angle);
      sines[position * half + index] = Math.sin(angle);
    }
  }
}
