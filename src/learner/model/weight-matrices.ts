// The matrices of a model, packed for the kernels. Packed weights take the place of plain ones, float for float, so that
// one offset finds a matrix in all three arrays: as it is, packed for the way forward, packed for the way back.

import type { Kernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import type { ParameterLayout } from "./parameter-layout.ts";

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
