// SwiGLU: y = silu(gate) * up, with gate and up side by side in one row, [rows][2 * size]. `size` is a multiple of 4.

import { multiplyAdd, sigmoid } from "./vector";

export function gate(x: usize, y: usize, rows: i32, size: i32): void {
  const bytes = usize(size) << 2;
  for (let row = 0; row < rows; row++, x += bytes * 2, y += bytes) {
    for (let at: usize = 0; at < bytes; at += 16) {
      const gated = v128.load(x + at);
      v128.store(y + at, f32x4.mul(f32x4.mul(gated, sigmoid(gated)), v128.load(x + bytes + at)));
    }
  }
}

/** Writes `xGradient`, which may be `x`. */
export function gateBackward(x: usize, yGradient: usize, xGradient: usize, rows: i32, size: i32): void {
  const bytes = usize(size) << 2;
  const one = f32x4.splat(1);
  for (let row = 0; row < rows; row++) {
    for (let at: usize = 0; at < bytes; at += 16) {
      const gated = v128.load(x + at);
      const up = v128.load(x + bytes + at);
      const gradient = v128.load(yGradient + at);
      const slope = sigmoid(gated);
      const curved = f32x4.mul(slope, multiplyAdd(gated, f32x4.sub(one, slope), one));
      v128.store(xGradient + at, f32x4.mul(f32x4.mul(gradient, up), curved));
      v128.store(xGradient + bytes + at, f32x4.mul(gradient, f32x4.mul(gated, slope)));
    }
    x += bytes * 2;
    xGradient += bytes * 2;
    yGradient += bytes;
  }
}
