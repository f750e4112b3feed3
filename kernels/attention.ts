// Causal attention of one sequence over itself and, if there is one, over a prefix shared with
// others, for training. Grouped queries: neighbouring heads share keys and values. Scores are
// computed for a block of rows at a time and again in the backward pass, so memory does not grow
// with the square of the length. Keys and values come packed (`panels.ts`), one head's panels after
// another's, each head's length rounded up to 8.

import { blockRows, gather, hide, roundUp8, score, scoreStride, seenBy } from "./attention-blocks";
import { exponential, maxLane, sumLanes } from "./vector";

/** Divisor of the output of each row of a block. */
const sums = memory.data(blockRows * 4, 16);

/**
 * queries, output: [rows][heads * size]; logSums: [rows][heads]. Row r sees the first `visible[r]` of `keys` own keys and the
 * whole prefix; `visible` never falls. Panels: keys by `packColumns`, values by `packRows`. With `prefix` 0 the prefix panels
 * are not read.
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
  visible: usize,
  keys: i32,
  prefix: i32,
  heads: i32,
  keyHeads: i32,
  size: i32,
  scores: usize,
): void {
  const width = heads * size;
  const depth = roundUp8(keys);
  const old = roundUp8(prefix);
  for (let head = 0; head < heads; head++) {
    const keyHead = head / (heads / keyHeads);
    const ownOffset = usize(keyHead * depth * size) << 2;
    const oldOffset = usize(keyHead * old * size) << 2;
    const oldKeys = prefixKeyPanels + oldOffset;
    const oldValues = prefixValuePanels + oldOffset;
    for (let first = 0; first < rows; first += blockRows) {
      const count = min(blockRows, rows - first);
      const own = roundUp8(seenBy(visible, first + count - 1));
      const stride = scoreStride(old + own);
      const offset = usize(first * width + head * size) << 2;
      score(count, old, own, size, queries + offset, width, oldKeys, keyPanels + ownOffset, scores, stride);
      for (let row = 0; row < count; row++) {
        const line = scores + (usize(row * stride) << 2);
        const logSum = logSums + (usize((first + row) * heads + head) << 2);
        const sum = exponentiate(line, prefix, old, seenBy(visible, first + row), own, size, logSum);
        store<f32>(sums + (usize(row) << 2), sum);
      }
      const target = output + offset;
      gather(count, old, own, size, scores, stride, oldValues, valuePanels + ownOffset, depth, target, width);
      // An output row is shorter than its scores, so dividing it costs less.
      for (let row = 0; row < count; row++) {
        divide(target + (usize(row * width) << 2), size, load<f32>(sums + (usize(row) << 2)));
      }
    }
  }
}

/**
 * Replaces scores by exponentials relative to the highest score, and by 0 for keys that the row may
 * not see: of `old` prefix columns the first `prefix` are keys, of `columns` own ones the first
 * `seen`. Returns their sum; writes the log of the absolute sum.
 */
function exponentiate(line: usize, prefix: i32, old: i32, seen: i32, columns: i32, size: i32, logSum: usize): f32 {
  const ownLine = line + (usize(old) << 2);
  hide(line, prefix, old, -Infinity);
  hide(ownLine, seen, columns, -Infinity);
  const end = ownLine + (usize((seen + 3) & ~3) << 2);
  let highest4 = v128.load(line);
  for (let at = line + 16; at < end; at += 16) highest4 = f32x4.pmax(highest4, v128.load(at));
  const highest = maxLane(highest4);
  highest4 = f32x4.splat(highest);
  const scale: f32 = 1 / sqrt<f32>(f32(size));
  const scale4 = f32x4.splat(scale);
  let sum4 = f32x4.splat(0);
  for (let at = line; at < end; at += 16) {
    const power = exponential(f32x4.mul(f32x4.sub(v128.load(at), highest4), scale4));
    v128.store(at, power);
    sum4 = f32x4.add(sum4, power);
  }
  hide(line, prefix, old, 0);
  hide(ownLine, seen, columns, 0);
  const sum = sumLanes(sum4);
  store<f32>(logSum, highest * scale + f32(Math.log(sum)));
  return sum;
}

function divide(values: usize, count: i32, divisor: f32): void {
  const share = f32x4.splat(1 / divisor);
  for (const end = values + (usize(count) << 2); values < end; values += 16) {
    v128.store(values, f32x4.mul(v128.load(values), share));
  }
}
