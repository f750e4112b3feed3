// Where each parameter lies in the one flat array that holds all weights of a model, under the names that Hugging Face
// gives them. One array: an update, a hot swap and an exchange between threads are one copy. Queries, keys and values lie
// side by side, gate and up too, so that each is one matrix to the kernels.

import type { Kernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";

export type Parameter = {
  readonly name: string;
  /** [outputs, inputs] of a matrix, [size] of a vector. */
  readonly shape: readonly number[];
  /** In floats from the beginning. */
  readonly offset: number;
  readonly size: number;
};

/** Offsets in floats. */
export type LayerOffsets = {
  readonly inputNorm: number;
  readonly query: number;
  readonly key: number;
  readonly value: number;
  readonly queryNorm: number;
  readonly keyNorm: number;
  readonly output: number;
  readonly feedForwardNorm: number;
  /** Gate above up: [2 * feedForwardSize, hiddenSize]. */
  readonly gateUp: number;
  readonly down: number;
};

export type ParameterLayout = {
  /** Floats in all; every parameter is a multiple of 4 long. */
  readonly size: number;
  /** In the order of their offsets, without gaps. */
  readonly parameters: readonly Parameter[];
  readonly embedding: number;
  readonly layers: readonly LayerOffsets[];
  readonly finalNorm: number;
};

export function parameterLayout(config: ModelConfig): ParameterLayout {
  const { hiddenSize, headSize, feedForwardSize } = config;
  const queryWidth = config.heads * headSize;
  const keyWidth = config.keyValueHeads * headSize;
  const parameters: Parameter[] = [];
  let size = 0;
  const add = (name: string, ...shape: readonly number[]): number => {
    const offset = size;
    const count = shape.reduce((product, length) => product * length, 1);
    parameters.push({ name, shape, offset, size: count });
    size += count;
    return offset;
  };

  const embedding = add("model.embed_tokens.weight", config.vocabularySize, hiddenSize);
  const layers: LayerOffsets[] = [];
  for (let index = 0; index < config.layers; index++) {
    const layer = `model.layers.${index}`;
    const inputNorm = add(`${layer}.input_layernorm.weight`, hiddenSize);
    const query = add(`${layer}.self_attn.q_proj.weight`, queryWidth, hiddenSize);
    const key = add(`${layer}.self_attn.k_proj.weight`, keyWidth, hiddenSize);
    const value = add(`${layer}.self_attn.v_proj.weight`, keyWidth, hiddenSize);
    const queryNorm = add(`${layer}.self_attn.q_norm.weight`, headSize);
    const keyNorm = add(`${layer}.self_attn.k_norm.weight`, headSize);
    const output = add(`${layer}.self_attn.o_proj.weight`, hiddenSize, queryWidth);
    const feedForwardNorm = add(`${layer}.post_attention_layernorm.weight`, hiddenSize);
    const gateUp = add(`${layer}.mlp.gate_proj.weight`, feedForwardSize, hiddenSize);
    add(`${layer}.mlp.up_proj.weight`, feedForwardSize, hiddenSize);
    const down = add(`${layer}.mlp.down_proj.weight`, hiddenSize, feedForwardSize);
    layers.push({ inputNorm, query, key, value, queryNorm, keyNorm, output, feedForwardNorm, gateUp, down });
  }
  const finalNorm = add("model.norm.weight", hiddenSize);
  return { size, parameters, embedding, layers, finalNorm };
}

export type WeightMatrix = { readonly offset: number; readonly outputs: number; readonly inputs: number };

/** Every matrix once; gate and up count as one. */
export function weightMatrices(config: ModelConfig, layout: ParameterLayout): readonly WeightMatrix[] {
  const { hiddenSize, headSize, feedForwardSize, vocabularySize } = config;
  const queryWidth = config.heads * headSize;
  const keyWidth = config.keyValueHeads * headSize;
  const matrices = layout.layers.flatMap((layer) => [
    { offset: layer.query, outputs: queryWidth, inputs: hiddenSize },
    { offset: layer.key, outputs: keyWidth, inputs: hiddenSize },
    { offset: layer.value, outputs: keyWidth, inputs: hiddenSize },
    { offset: layer.output, outputs: hiddenSize, inputs: queryWidth },
    { offset: layer.gateUp, outputs: 2 * feedForwardSize, inputs: hiddenSize },
    { offset: layer.down, outputs: hiddenSize, inputs: feedForwardSize },
  ]);
  return [{ offset: layout.embedding, outputs: vocabularySize, inputs: hiddenSize }, ...matrices];
}

/** Packs for products of rows with a transposed matrix: outputs from inputs. All are pointers. */
export function packForward(
  kernels: Kernels,
  matrices: readonly WeightMatrix[],
  pointers: { readonly weights: number; readonly target: number },
): void {
  for (const { offset, outputs, inputs } of matrices) {
    kernels.packColumns(pointers.weights + offset * 4, inputs, inputs, outputs, pointers.target + offset * 4);
  }
}

/** Packs for products of rows with a matrix: gradients of inputs from gradients of outputs. */
export function packBackward(
  kernels: Kernels,
  matrices: readonly WeightMatrix[],
  pointers: { readonly weights: number; readonly target: number },
): void {
  for (const { offset, outputs, inputs } of matrices) {
    kernels.packRows(pointers.weights + offset * 4, inputs, outputs, inputs, pointers.target + offset * 4);
  }
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
