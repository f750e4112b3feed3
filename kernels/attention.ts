// Causal attention of one sequence over itself and, when there is one, a prefix shared with others, forward and backward,
// for training. Grouped queries: neighbouring heads share keys and values. Scores are made for a block of rows at a time
// and made again on the way back, so memory does not grow with the square of the length.
//
// Keys and values come packed (`panels.ts`), a head's panels after the other's, each head's length rounded up to 8. A row
// of scores is [prefix, rounded up to 8][own keys up to the block's last row, rounded up to 8].

import { multiply, multiplyTransposed } from "./matrix";
import { packRows } from "./panels";
import { exponential, maxLane, multiplyAdd, sumLanes } from "./vector";

/** Rows of a block. Measured: 32 to 64 are equal within the noise, less and more are slower. */
const blockRows: i32 = 48;

function roundUp8(count: i32): i32 {
  return (count + 7) & ~7;
}

/** Where row `index` of a block's scores would end; not a multiple of 1024 floats, which all fall into the same cache lines. */
function scoreStride(columns: i32): i32 {
  return ((columns + 15) & ~15) + 8;
}

/** Floats that a block of scores needs, for callers that allocate. */
export function scoreFloats(keys: i32): i32 {
  return blockRows * scoreStride(keys + 16);
}

/**
 * queries, output: [rows][heads * size]; logSums: [rows][heads]. Panels: keys by `packColumns`, values by `packRows`. With
 * `prefix` 0 the prefix panels are not read.
 */
export function attend(
  queries: usize,
  keyPanels: usize,
  valuePanels: usize,
  prefixKeyPanels: usize,
  prefixValuePanels: usize,
  output: usize,
  logSums: usize,
  rows: i32,
  prefix: i32,
  heads: i32,
  keyHeads: i32,
  size: i32,
  scores: usize,
): void {
  const width = heads * size;
  const group = heads / keyHeads;
  const ownBytes = usize(roundUp8(rows) * size) << 2;
  const prefixColumns = roundUp8(prefix);
  const prefixBytes = usize(prefixColumns * size) << 2;
  for (let head = 0; head < heads; head++) {
    const keyHead = usize(head / group);
    const ownKeys = keyPanels + keyHead * ownBytes;
    const ownValues = valuePanels + keyHead * ownBytes;
    const oldKeys = prefixKeyPanels + keyHead * prefixBytes;
    const oldValues = prefixValuePanels + keyHead * prefixBytes;
    for (let first = 0; first < rows; first += blockRows) {
      const count = min(blockRows, rows - first);
      const own = roundUp8(first + count);
      const stride = scoreStride(prefixColumns + own);
      const offset = usize(first * width + head * size) << 2;
      const ownScores = scores + (usize(prefixColumns) << 2);
      multiply(count, prefixColumns, size, queries + offset, width, oldKeys, size, scores, stride, false);
      multiply(count, own, size, queries + offset, width, ownKeys, size, ownScores, stride, false);
      for (let row = 0; row < count; row++) {
        const line = scores + (usize(row * stride) << 2);
        const logSum = softmax(line, prefix, first + row + 1, prefixColumns, own, size);
        store<f32>(logSums + (usize((first + row) * heads + head) << 2), logSum);
      }
      multiply(count, size, prefixColumns, scores, stride, oldValues, prefixColumns, output + offset, width, false);
      multiply(count, size, own, ownScores, stride, ownValues, roundUp8(rows), output + offset, width, prefix > 0);
    }
  }
}

/** A row of scores becomes probabilities; keys it may not see get 0. Returns the log of the sum of exponentials. */
function softmax(line: usize, prefix: i32, own: i32, prefixColumns: i32, ownColumns: i32, size: i32): f32 {
  const ownLine = line + (usize(prefixColumns) << 2);
  const end = ownLine + (usize(ownColumns) << 2);
  hide(line, prefix, prefixColumns, -Infinity);
  hide(ownLine, own, ownColumns, -Infinity);
  let highest4 = f32x4.splat(-Infinity);
  for (let at = line; at < end; at += 16) highest4 = f32x4.max(highest4, v128.load(at));
  const highest = maxLane(highest4);
  const scale: f32 = 1 / sqrt<f32>(f32(size));
  const scale4 = f32x4.splat(scale);
  highest4 = f32x4.splat(highest);
  let sums = f32x4.splat(0);
  const seen = ownLine + (usize((own + 3) & ~3) << 2);
  for (let at = line; at < seen; at += 16) {
    const power = exponential(f32x4.mul(f32x4.sub(v128.load(at), highest4), scale4));
    v128.store(at, power);
    sums = f32x4.add(sums, power);
  }
  const sum = sumLanes(sums);
  const share = f32x4.splat(1 / sum);
  for (let at = line; at < seen; at += 16) v128.store(at, f32x4.mul(v128.load(at), share));
  hide(line, prefix, prefixColumns, 0);
  hide(ownLine, own, ownColumns, 0);
  return highest * scale + f32(Math.log(sum));
}

function hide(line: usize, from: i32, to: i32, value: f32): void {
  for (let index = from; index < to; index++) store<f32>(line + (usize(index) << 2), value);
}

/**
 * Writes the gradient of queries and adds to those of keys and values, [rows][keyHeads * size]. Up to 7 rows beyond the
 * last get zeros added. Panels come in both ways: keys and values each by `packColumns` (for scores) and by `packRows` (keys
 * only, for the gradient of queries). `scratch` is for `multiplyTransposed` and two packed blocks of rows.
 */
export function attendBackward(
  queries: usize,
  keyPanels: usize,
  keyRowPanels: usize,
  valuePanels: usize,
  prefixKeyPanels: usize,
  prefixKeyRowPanels: usize,
  prefixValuePanels: usize,
  output: usize,
  logSums: usize,
  outputGradient: usize,
  queryGradient: usize,
  keyGradient: usize,
  valueGradient: usize,
  prefixKeyGradient: usize,
  prefixValueGradient: usize,
  rows: i32,
  prefix: i32,
  heads: i32,
  keyHeads: i32,
  size: i32,
  scores: usize,
  slopes: usize,
  scratch: usize,
): void {
  const width = heads * size;
  const keyWidth = keyHeads * size;
  const group = heads / keyHeads;
  const ownBytes = usize(roundUp8(rows) * size) << 2;
  const prefixColumns = roundUp8(prefix);
  const prefixBytes = usize(prefixColumns * size) << 2;
  const packedQueries = scratch + 16 * 1024;
  const packedGradients = packedQueries + (usize(blockRows * size) << 2);
  for (let head = 0; head < heads; head++) {
    const keyHead = usize(head / group);
    const ownOffset = keyHead * ownBytes;
    const oldOffset = keyHead * prefixBytes;
    const column = keyHead * (usize(size) << 2);
    for (let first = 0; first < rows; first += blockRows) {
      const count = min(blockRows, rows - first);
      const own = roundUp8(first + count);
      const stride = scoreStride(prefixColumns + own);
      const offset = usize(first * width + head * size) << 2;
      const block = queries + offset;
      const gradient = outputGradient + offset;
      const ownScores = scores + (usize(prefixColumns) << 2);
      const ownSlopes = slopes + (usize(prefixColumns) << 2);
      multiply(count, prefixColumns, size, block, width, prefixKeyPanels + oldOffset, size, scores, stride, false);
      multiply(count, own, size, block, width, keyPanels + ownOffset, size, ownScores, stride, false);
      multiply(count, prefixColumns, size, gradient, width, prefixValuePanels + oldOffset, size, slopes, stride, false);
      multiply(count, own, size, gradient, width, valuePanels + ownOffset, size, ownSlopes, stride, false);
      for (let row = 0; row < count; row++) {
        const line = usize(row * stride) << 2;
        const logSum = load<f32>(logSums + (usize((first + row) * heads + head) << 2));
        const product = dot(output + offset, gradient, usize(row * width) << 2, size);
        softmaxBackward(
          scores + line,
          slopes + line,
          prefix,
          first + row + 1,
          prefixColumns,
          own,
          size,
          logSum,
          product,
        );
      }
      const target = queryGradient + offset;
      multiply(
        count,
        size,
        prefixColumns,
        slopes,
        stride,
        prefixKeyRowPanels + oldOffset,
        prefixColumns,
        target,
        width,
        false,
      );
      multiply(
        count,
        size,
        own,
        ownSlopes,
        stride,
        keyRowPanels + ownOffset,
        roundUp8(rows),
        target,
        width,
        prefix > 0,
      );
      packRows(block, width, count, size, packedQueries);
      packRows(gradient, width, count, size, packedGradients);
      const keys = keyGradient + column;
      const values = valueGradient + column;
      const oldKeys = prefixKeyGradient + column;
      const oldValues = prefixValueGradient + column;
      multiplyTransposed(prefixColumns, size, count, slopes, stride, packedQueries, count, oldKeys, keyWidth, scratch);
      multiplyTransposed(
        prefixColumns,
        size,
        count,
        scores,
        stride,
        packedGradients,
        count,
        oldValues,
        keyWidth,
        scratch,
      );
      multiplyTransposed(own, size, count, ownSlopes, stride, packedQueries, count, keys, keyWidth, scratch);
      multiplyTransposed(own, size, count, ownScores, stride, packedGradients, count, values, keyWidth, scratch);
    }
  }
}

function dot(a: usize, b: usize, offset: usize, size: i32): f32 {
  let sum = f32x4.splat(0);
  const end = offset + (usize(size) << 2);
  for (let at = offset; at < end; at += 16) sum = multiplyAdd(v128.load(a + at), v128.load(b + at), sum);
  return sumLanes(sum);
}

/** Scores become probabilities again, slopes (by probability) become slopes by score. */
function softmaxBackward(
  line: usize,
  slopeLine: usize,
  prefix: i32,
  own: i32,
  prefixColumns: i32,
  ownColumns: i32,
  size: i32,
  logSum: f32,
  product: f32,
): void {
  const scale4 = f32x4.splat(1 / sqrt<f32>(f32(size)));
  const logSum4 = f32x4.splat(logSum);
  const product4 = f32x4.splat(product);
  const end = usize(prefixColumns + ((own + 3) & ~3)) << 2;
  for (let at: usize = 0; at < end; at += 16) {
    const power = exponential(f32x4.sub(f32x4.mul(v128.load(line + at), scale4), logSum4));
    const slope = f32x4.mul(f32x4.mul(power, scale4), f32x4.sub(v128.load(slopeLine + at), product4));
    v128.store(line + at, power);
    v128.store(slopeLine + at, slope);
  }
  const ownOffset = usize(prefixColumns) << 2;
  hide(line, prefix, prefixColumns, 0);
  hide(slopeLine, prefix, prefixColumns, 0);
  hide(line + ownOffset, own, ownColumns, 0);
  hide(slopeLine + ownOffset, own, ownColumns, 0);
}
