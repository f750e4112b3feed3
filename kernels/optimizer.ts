// Weight update on flat arrays of floats, a multiple of 4 long.

import { multiplyAdd, sumLanes } from "./vector";

export function sumOfSquares(values: usize, count: i32): f32 {
  let sum = f32x4.splat(0);
  for (const end = values + (usize(count) << 2); values < end; values += 16) {
    const value = v128.load(values);
    sum = multiplyAdd(value, value, sum);
  }
  return sumLanes(sum);
}

export function addTo(target: usize, source: usize, count: i32): void {
  for (const end = target + (usize(count) << 2); target < end; target += 16, source += 16) {
    v128.store(target, f32x4.add(v128.load(target), v128.load(source)));
  }
}

/** AdamW. `scale` multiplies the gradients first; `correction1` and `correction2` are 1 - beta^step. */
export function adamw(
  weights: usize,
  gradients: usize,
  means: usize,
  variances: usize,
  count: i32,
  scale: f32,
  learningRate: f32,
  decay: f32,
  beta1: f32,
  beta2: f32,
  epsilon: f32,
  correction1: f32,
  correction2: f32,
): void {
  const keep1 = f32x4.splat(beta1);
  const keep2 = f32x4.splat(beta2);
  const take1 = f32x4.splat(1 - beta1);
  const take2 = f32x4.splat(1 - beta2);
  const step = f32x4.splat(learningRate / correction1);
  const unbias2 = f32x4.splat(1 / correction2);
  const shrink = f32x4.splat(1 - learningRate * decay);
  const scale4 = f32x4.splat(scale);
  const epsilon4 = f32x4.splat(epsilon);
  const end = usize(count) << 2;
  for (let at: usize = 0; at < end; at += 16) {
    const gradient = f32x4.mul(v128.load(gradients + at), scale4);
    const mean = multiplyAdd(take1, gradient, f32x4.mul(keep1, v128.load(means + at)));
    const variance = multiplyAdd(take2, f32x4.mul(gradient, gradient), f32x4.mul(keep2, v128.load(variances + at)));
    v128.store(means + at, mean);
    v128.store(variances + at, variance);
    const size = f32x4.add(f32x4.sqrt(f32x4.mul(variance, unbias2)), epsilon4);
    const moved = f32x4.div(f32x4.mul(mean, step), size);
    v128.store(weights + at, f32x4.sub(f32x4.mul(v128.load(weights + at), shrink), moved));
  }
}
