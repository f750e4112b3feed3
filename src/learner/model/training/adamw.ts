// One AdamW step with gradient clipping. Vectors (the weights of norms) do not decay.

import type { Kernels } from "../kernels.ts";
import type { ParameterLayout } from "../parameter-layout.ts";

export type UpdateOptions = {
  readonly learningRate: number;
  /** Default 0. */
  readonly weightDecay?: number;
  /** Default 0.9. */
  readonly beta1?: number;
  /** Default 0.95. */
  readonly beta2?: number;
  /** Default 1e-8. */
  readonly epsilon?: number;
  /** Gradients are scaled down to this norm when theirs is larger; `null`: never. Default 1. */
  readonly maxGradientNorm?: number | null;
};

/** Pointers to arrays of one float for each parameter. */
export type OptimizerPointers = {
  readonly weights: number;
  readonly gradients: number;
  readonly means: number;
  readonly variances: number;
};

/**
 * Updates the weights in place; `step` counts from 1. Returns the norm of the gradients before clipping. When that is no
 * finite number, nothing is updated.
 */
export function updateWeights(
  kernels: Kernels,
  layout: ParameterLayout,
  pointers: OptimizerPointers,
  step: number,
  options: UpdateOptions,
): number {
  const { learningRate, weightDecay = 0, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, maxGradientNorm = 1 } = options;
  const norm = Math.sqrt(kernels.sumOfSquares(pointers.gradients, layout.size));
  if (!Number.isFinite(norm)) return norm;
  const scale = maxGradientNorm !== null && norm > maxGradientNorm ? maxGradientNorm / norm : 1;
  for (const { shape, offset, size } of layout.parameters) {
    const at = offset * 4;
    kernels.adamw(
      pointers.weights + at,
      pointers.gradients + at,
      pointers.means + at,
      pointers.variances + at,
      size,
      scale,
      learningRate,
      shape.length > 1 ? weightDecay : 0,
      beta1,
      beta2,
      epsilon,
      1 - beta1 ** step,
      1 - beta2 ** step,
    );
  }
  return norm;
}
