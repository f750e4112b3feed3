// Backward pass of attention. Probabilities are computed again from queries and keys, block by
// block.

import { blockRows, gather, hide, roundUp8, scatter, score, scoreStride, seenBy } from "./attention-blocks";
import { packRows } from "./panels";
import { exponential, multiplyAdd, sumLanes } from "./vector";

/** Size in bytes of the scratch buffer of `multiplyTransposed`. */
const transposeBytes: usize = 16 * 1024;

/**
 * Writes the gradient of queries and adds to those of keys and values, [keys][keyHeads * size]. Up
 * to 7 rows after the last get zeros added. Panels: keys and values by `packColumns`, keys by
 * `packRows` too; other arguments as in `attend`. `scratch` holds the scratch of
 * `multiplyTransposed` and two packed blocks of rows.
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
  visible: usize,
  keys: i32,
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
  const depth = roundUp8(keys);
  const old = roundUp8(prefix);
  const packedQueries = scratch + transposeBytes;
  const packedGradients = packedQueries + (usize(blockRows * size) << 2);
  for (let head = 0; head < heads; head++) {
    const keyHead = head / (heads / keyHeads);
    const ownOffset = usize(keyHead * depth * size) << 2;
    const oldOffset = usize(keyHead * old * size) << 2;
    const column = usize(keyHead * size) << 2;
    const oldKeys = prefixKeyPanels + oldOffset;
    const oldValues = prefixValuePanels + oldOffset;
    const oldKeyRows = prefixKeyRowPanels + oldOffset;
    const dOldKeys = prefixKeyGradient + column;
    const dOldValues = prefixValueGradient + column;
    const dKeys = keyGradient + column;
    const dValues = valueGradient + column;
    for (let first = 0; first < rows; first += blockRows) {
      const count = min(blockRows, rows - first);
      const own = roundUp8(seenBy(visible, first + count - 1));
      const stride = scoreStride(old + own);
      const offset = usize(first * width + head * size) << 2;
      const block = queries + offset;
      const dBlock = outputGradient + offset;
      score(count, old, own, size, block, width, oldKeys, keyPanels + ownOffset, scores, stride);
      score(count, old, own, size, dBlock, width, oldValues, valuePanels + ownOffset, slopes, stride);
      for (let row = 0; row < count; row++) {
        const line = usize(row * stride) << 2;
        const at = usize(row * width) << 2;
        const logSum = load<f32>(logSums + (usize((first + row) * heads + head) << 2));
        const product = dot(output + offset + at, dBlock + at, size);
        const seen = seenBy(visible, first + row);
        toSlopes(scores + line, slopes + line, prefix, old, seen, own, size, logSum, product);
      }
      const dQueries = queryGradient + offset;
      gather(count, old, own, size, slopes, stride, oldKeyRows, keyRowPanels + ownOffset, depth, dQueries, width);
      packRows(block, width, count, size, packedQueries);
      packRows(dBlock, width, count, size, packedGradients);
      scatter(count, old, own, size, slopes, stride, packedQueries, dOldKeys, dKeys, keyWidth, scratch);
      scatter(count, old, own, size, scores, stride, packedGradients, dOldValues, dValues, keyWidth, scratch);
    }
  }
}

function dot(a: usize, b: usize, size: i32): f32 {
  let sum = f32x4.splat(0);
  const end = a + (usize(size) << 2);
  for (; a < end; a += 16, b += 16) sum = multiplyAdd(v128.load(a), v128.load(b), sum);
  return sumLanes(sum);
}

/**
 * Turns scores into probabilities again, and gradients by probability into gradients by score.
 * Columns as in `attend`.
 */
function toSlopes(
  line: usize,
  slopeLine: usize,
  prefix: i32,
  old: i32,
  seen: i32,
  columns: i32,
  size: i32,
  logSum: f32,
  product: f32,
): void {
  const scale4 = f32x4.splat(1 / sqrt<f32>(f32(size)));
  const logSum4 = f32x4.splat(logSum);
  const product4 = f32x4.splat(product);
  const end = usize(old + ((seen + 3) & ~3)) << 2;
  for (let at: usize = 0; at < end; at += 16) {
    const power = exponential(f32x4.sub(f32x4.mul(v128.load(line + at), scale4), logSum4));
    const slope = f32x4.mul(f32x4.mul(power, scale4), f32x4.sub(v128.load(slopeLine + at), product4));
    v128.store(line + at, power);
    v128.store(slopeLine + at, slope);
  }
  const ownOffset = usize(old) << 2;
  hide(line, prefix, old, 0);
  hide(slopeLine, prefix, old, 0);
  hide(line + ownOffset, seen, columns, 0);
  hide(slopeLine + ownOffset, seen, columns, 0);
}
