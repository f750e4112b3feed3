// Computations of attention for a block of rows, shared by the forward and backward pass: products
// with the keys (or values) of a shared prefix and with a sequence's own, and sums over them. A row
// of scores is [prefix, rounded up to 8][own keys up to the block's last row, rounded up to 8].

import { multiply, multiplyTransposed } from "./matrix";

/** Rows of a block. Measured: 16 to 64 are equal within the noise, more are slower. */
export const blockRows: i32 = 32;

export function roundUp8(count: i32): i32 {
  return (count + 7) & ~7;
}

/** Floats from one row of scores to the next; never a multiple of 1024, whose rows would share a few cache lines. */
export function scoreStride(columns: i32): i32 {
  return ((columns + 15) & ~15) + 8;
}

/** Floats that a block of scores needs, for callers that allocate. */
export function scoreFloats(keys: i32): i32 {
  return blockRows * scoreStride(keys + 16);
}

/** Number of own keys that a row sees. */
export function seenBy(visible: usize, row: i32): i32 {
  return load<u32>(visible + (usize(row) << 2));
}

/** scores[count][...] = rows[count][size] times the columns of both panels. */
export function score(
  count: i32,
  prefix: i32,
  own: i32,
  size: i32,
  rows: usize,
  rowStride: i32,
  prefixPanels: usize,
  ownPanels: usize,
  scores: usize,
  stride: i32,
): void {
  multiply(count, prefix, size, rows, rowStride, prefixPanels, size, scores, stride, false);
  multiply(count, own, size, rows, rowStride, ownPanels, size, scores + (usize(prefix) << 2), stride, false);
}

/** target[count][size] = scores times the rows of both panels; `keys` is the depth of the own ones. */
export function gather(
  count: i32,
  prefix: i32,
  own: i32,
  size: i32,
  scores: usize,
  stride: i32,
  prefixPanels: usize,
  ownPanels: usize,
  keys: i32,
  target: usize,
  targetStride: i32,
): void {
  multiply(count, size, prefix, scores, stride, prefixPanels, prefix, target, targetStride, false);
  const ownScores = scores + (usize(prefix) << 2);
  multiply(count, size, own, ownScores, stride, ownPanels, keys, target, targetStride, prefix > 0);
}

/** Adds transposed scores times packed rows to the sums of the prefix and of the sequence. */
export function scatter(
  count: i32,
  prefix: i32,
  own: i32,
  size: i32,
  scores: usize,
  stride: i32,
  packedRows: usize,
  prefixTarget: usize,
  ownTarget: usize,
  targetStride: i32,
  scratch: usize,
): void {
  multiplyTransposed(prefix, size, count, scores, stride, packedRows, count, prefixTarget, targetStride, scratch);
  const ownScores = scores + (usize(prefix) << 2);
  multiplyTransposed(own, size, count, ownScores, stride, packedRows, count, ownTarget, targetStride, scratch);
}

export function hide(line: usize, from: i32, to: i32, value: f32): void {
  for (let index = from; index < to; index++) store<f32>(line + (usize(index) << 2), value);
}
