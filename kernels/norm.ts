// RMSNorm of rows, forward and backward: y = x / rms(x) * weight. Rows are contiguous, `size` is a
// multiple of 4.

import { multiplyAdd, sumLanes } from "./vector";

/** Keeps 1 / rms of each row in `scales` for the backward pass. `y` may be `x`. */
export function normalize(x: usize, weight: usize, y: usize, scales: usize, rows: i32, size: i32, epsilon: f32): void {
  const bytes = usize(size) << 2;
  for (let row = 0; row < rows; row++, x += bytes, y += bytes, scales += 4) {
    let squares = f32x4.splat(0);
    for (let at: usize = 0; at < bytes; at += 16) {
      const value = v128.load(x + at);
      squares = multiplyAdd(value, value, squares);
    }
    const scale: f32 = 1 / sqrt<f32>(sumLanes(squares) / f32(size) + epsilon);
    store<f32>(scales, scale);
    const scales4 = f32x4.splat(scale);
    for (let at: usize = 0; at < bytes; at += 16) {
      v128.store(y + at, f32x4.mul(f32x4.mul(v128.load(x + at), scales4), v128.load(weight + at)));
    }
  }
}

/**
 * Adds to `weightGradient`; writes `xGradient`, or adds to it. `xGradient` may be `yGradient` if it
 * is written.
 */
export function normalizeBackward(
  yGradient: usize,
  x: usize,
  weight: usize,
  scales: usize,
  xGradient: usize,
  weightGradient: usize,
  rows: i32,
  size: i32,
  accumulate: bool,
): void {
  const bytes = usize(size) << 2;
  for (let row = 0; row < rows; row++, scales += 4) {
    const scale = v128.load_splat<f32>(scales);
    let products = f32x4.splat(0);
    for (let at: usize = 0; at < bytes; at += 16) {
      const unit = f32x4.mul(v128.load(x + at), scale);
      const gradient = v128.load(yGradient + at);
      v128.store(weightGradient + at, multiplyAdd(gradient, unit, v128.load(weightGradient + at)));
      products = multiplyAdd(f32x4.mul(gradient, v128.load(weight + at)), unit, products);
    }
    const mean = f32x4.splat(sumLanes(products) / f32(size));
    for (let at: usize = 0; at < bytes; at += 16) {
      const unit = f32x4.mul(v128.load(x + at), scale);
      const weighted = f32x4.mul(v128.load(yGradient + at), v128.load(weight + at));
      const gradient = f32x4.mul(scale, f32x4.sub(weighted, f32x4.mul(unit, mean)));
      v128.store(xGradient + at, accumulate ? f32x4.add(gradient, v128.load(xGradient + at)) : gradient);
    }
    x += bytes;
    yGradient += bytes;
    xGradient += bytes;
  }
}
