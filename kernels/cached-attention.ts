// Attention of single rows over a paged cache of keys and values, for decoding and for prompts
// alike. Each row is computed on its own, over its keys in order, so its result does not depend on
// neighbouring rows or on the division of a prompt.
//
// A page holds 16 tokens of one layer. For each key head it has the keys transposed, [size][16],
// and then the values, [16][size], so that scores and sums both run over whole vectors. Heads that
// share a key head are processed in pairs, which fills the eight accumulators that stay in
// registers.

import { exponential, maxLane, multiplyAdd, sumLanes } from "./vector";

const pageTokens: i32 = 16;

/**
 * Writes each row's keys and values to its position, then attends. `tables[row]` points to the page
 * numbers of the row's sequence, `positions[row]` is its position in the sequence: it sees the keys
 * before it and its own. Rows: queries and output [heads * size], keys and values [keyHeads *
 * size]. `size` is a multiple of 16. `scores` holds two floats for each token of the longest
 * sequence, rounded up to whole pages.
 */
export function attendCached(
  queries: usize,
  keys: usize,
  values: usize,
  output: usize,
  rows: i32,
  tables: usize,
  positions: usize,
  layer: usize,
  heads: i32,
  keyHeads: i32,
  size: i32,
  scores: usize,
): void {
  const blockBytes = usize(size * pageTokens) << 2;
  const pageBytes = blockBytes * 2 * usize(keyHeads);
  const headBytes = usize(size) << 2;
  const group = heads / keyHeads;
  for (let row = 0; row < rows; row++) {
    const position = load<u32>(positions + (usize(row) << 2));
    const table = usize(load<u32>(tables + (usize(row) << 2)));
    let block = layer + usize(load<u32>(table + (usize(position >> 4) << 2))) * pageBytes;
    for (let keyHead = 0; keyHead < keyHeads; keyHead++) {
      const offset = usize(row * keyHeads + keyHead) * headBytes;
      writeKey(keys + offset, size, block + (usize(position & 15) << 2));
      memory.copy(block + blockBytes + usize(position & 15) * headBytes, values + offset, headBytes);
      block += blockBytes * 2;
    }
  }
  for (let row = 0; row < rows; row++) {
    const count = load<u32>(positions + (usize(row) << 2)) + 1;
    const table = usize(load<u32>(tables + (usize(row) << 2)));
    for (let keyHead = 0; keyHead < keyHeads; keyHead++) {
      const blocks = layer + usize(keyHead) * blockBytes * 2;
      const first = usize(row * heads + keyHead * group) * headBytes;
      for (let member = 0; member < group; member += 2) {
        const query = queries + first + usize(member) * headBytes;
        const target = output + first + usize(member) * headBytes;
        if (group - member > 1) {
          attendPair(query, target, table, blocks, pageBytes, blockBytes, count, size, scores);
        } else {
          attendOne(query, target, table, blocks, pageBytes, blockBytes, count, size, scores);
        }
      }
    }
  }
}

function writeKey(key: usize, size: i32, target: usize): void {
  for (let index = 0; index < size; index++) {
    store<f32>(target + usize(index) * usize(pageTokens << 2), load<f32>(key + (usize(index) << 2)));
  }
}

function attendPair(
  query: usize,
  target: usize,
  table: usize,
  blocks: usize,
  pageBytes: usize,
  blockBytes: usize,
  count: i32,
  size: i32,
  scores: usize,
): void {
  const pages = (count + 15) >> 4;
  const headBytes = usize(size) << 2;
  const other = scores + (usize(pages) << 6);
  for (let page = 0; page < pages; page++) {
    const block = blocks + usize(load<u32>(table + (usize(page) << 2))) * pageBytes;
    scorePair(query, query + headBytes, block, size, scores + (usize(page) << 6), other + (usize(page) << 6));
  }
  const share = softmax(scores, count, size);
  const otherShare = softmax(other, count, size);
  for (let at: usize = 0; at < headBytes; at += 64) {
    sumPair(
      scores,
      other,
      share,
      otherShare,
      table,
      blocks + blockBytes + at,
      pageBytes,
      count,
      headBytes,
      target + at,
    );
  }
}

function scorePair(query: usize, other: usize, block: usize, size: i32, scores: usize, otherScores: usize): void {
  let a0 = f32x4.splat(0);
  let a1 = f32x4.splat(0);
  let a2 = f32x4.splat(0);
  let a3 = f32x4.splat(0);
  let b0 = f32x4.splat(0);
  let b1 = f32x4.splat(0);
  let b2 = f32x4.splat(0);
  let b3 = f32x4.splat(0);
  for (const end = block + (usize(size) << 6); block < end; block += 64, query += 4, other += 4) {
    const a = v128.load_splat<f32>(query);
    const b = v128.load_splat<f32>(other);
    let key = v128.load(block);
    a0 = multiplyAdd(a, key, a0);
    b0 = multiplyAdd(b, key, b0);
    key = v128.load(block, 16);
    a1 = multiplyAdd(a, key, a1);
    b1 = multiplyAdd(b, key, b1);
    key = v128.load(block, 32);
    a2 = multiplyAdd(a, key, a2);
    b2 = multiplyAdd(b, key, b2);
    key = v128.load(block, 48);
    a3 = multiplyAdd(a, key, a3);
    b3 = multiplyAdd(b, key, b3);
  }
  put16(scores, a0, a1, a2, a3);
  put16(otherScores, b0, b1, b2, b3);
}

function sumPair(
  weights: usize,
  otherWeights: usize,
  share: f32,
  otherShare: f32,
  table: usize,
  values: usize,
  pageBytes: usize,
  count: i32,
  headBytes: usize,
  target: usize,
): void {
  let a0 = f32x4.splat(0);
  let a1 = f32x4.splat(0);
  let a2 = f32x4.splat(0);
  let a3 = f32x4.splat(0);
  let b0 = f32x4.splat(0);
  let b1 = f32x4.splat(0);
  let b2 = f32x4.splat(0);
  let b3 = f32x4.splat(0);
  for (let seen = 0; seen < count; seen += pageTokens, table += 4) {
    let row = values + usize(load<u32>(table)) * pageBytes;
    for (let left = min(pageTokens, count - seen); left > 0; left--, row += headBytes) {
      const a = v128.load_splat<f32>(weights);
      const b = v128.load_splat<f32>(otherWeights);
      let value = v128.load(row);
      a0 = multiplyAdd(a, value, a0);
      b0 = multiplyAdd(b, value, b0);
      value = v128.load(row, 16);
      a1 = multiplyAdd(a, value, a1);
      b1 = multiplyAdd(b, value, b1);
      value = v128.load(row, 32);
      a2 = multiplyAdd(a, value, a2);
      b2 = multiplyAdd(b, value, b2);
      value = v128.load(row, 48);
      a3 = multiplyAdd(a, value, a3);
      b3 = multiplyAdd(b, value, b3);
      weights += 4;
      otherWeights += 4;
    }
  }
  putScaled16(target, a0, a1, a2, a3, share);
  putScaled16(target + headBytes, b0, b1, b2, b3, otherShare);
}

function attendOne(
  query: usize,
  target: usize,
  table: usize,
  blocks: usize,
  pageBytes: usize,
  blockBytes: usize,
  count: i32,
  size: i32,
  scores: usize,
): void {
  const pages = (count + 15) >> 4;
  const headBytes = usize(size) << 2;
  for (let page = 0; page < pages; page++) {
    const block = blocks + usize(load<u32>(table + (usize(page) << 2))) * pageBytes;
    scoreOne(query, block, size, scores + (usize(page) << 6));
  }
  const share = softmax(scores, count, size);
  for (let at: usize = 0; at < headBytes; at += 64) {
    sumOne(scores, share, table, blocks + blockBytes + at, pageBytes, count, headBytes, target + at);
  }
}

function scoreOne(query: usize, block: usize, size: i32, scores: usize): void {
  let a0 = f32x4.splat(0);
  let a1 = f32x4.splat(0);
  let a2 = f32x4.splat(0);
  let a3 = f32x4.splat(0);
  for (const end = block + (usize(size) << 6); block < end; block += 64, query += 4) {
    const a = v128.load_splat<f32>(query);
    a0 = multiplyAdd(a, v128.load(block), a0);
    a1 = multiplyAdd(a, v128.load(block, 16), a1);
    a2 = multiplyAdd(a, v128.load(block, 32), a2);
    a3 = multiplyAdd(a, v128.load(block, 48), a3);
  }
  put16(scores, a0, a1, a2, a3);
}

function sumOne(
  weights: usize,
  share: f32,
  table: usize,
  values: usize,
  pageBytes: usize,
  count: i32,
  headBytes: usize,
  target: usize,
): void {
  let a0 = f32x4.splat(0);
  let a1 = f32x4.splat(0);
  let a2 = f32x4.splat(0);
  let a3 = f32x4.splat(0);
  for (let seen = 0; seen < count; seen += pageTokens, table += 4) {
    let row = values + usize(load<u32>(table)) * pageBytes;
    for (let left = min(pageTokens, count - seen); left > 0; left--, row += headBytes, weights += 4) {
      const a = v128.load_splat<f32>(weights);
      a0 = multiplyAdd(a, v128.load(row), a0);
      a1 = multiplyAdd(a, v128.load(row, 16), a1);
      a2 = multiplyAdd(a, v128.load(row, 32), a2);
      a3 = multiplyAdd(a, v128.load(row, 48), a3);
    }
  }
  putScaled16(target, a0, a1, a2, a3, share);
}

/** Replaces scores by exponentials in place; returns 1 / their sum. */
function softmax(scores: usize, count: i32, size: i32): f32 {
  const end = scores + (usize((count + 3) & ~3) << 2);
  for (let at = scores + (usize(count) << 2); at < end; at += 4) store<f32>(at, -Infinity);
  let highest4 = v128.load(scores);
  for (let at = scores + 16; at < end; at += 16) highest4 = f32x4.pmax(highest4, v128.load(at));
  const highest = maxLane(highest4);
  const scale4 = f32x4.splat(1 / sqrt<f32>(f32(size)));
  highest4 = f32x4.splat(highest);
  let sums = f32x4.splat(0);
  for (let at = scores; at < end; at += 16) {
    const power = exponential(f32x4.mul(f32x4.sub(v128.load(at), highest4), scale4));
    v128.store(at, power);
    sums = f32x4.add(sums, power);
  }
  return 1 / sumLanes(sums);
}

function put16(target: usize, a0: v128, a1: v128, a2: v128, a3: v128): void {
  v128.store(target, a0);
  v128.store(target, a1, 16);
  v128.store(target, a2, 32);
  v128.store(target, a3, 48);
}

function putScaled16(target: usize, a0: v128, a1: v128, a2: v128, a3: v128, scale: f32): void {
  const scale4 = f32x4.splat(scale);
  put16(target, f32x4.mul(a0, scale4), f32x4.mul(a1, scale4), f32x4.mul(a2, scale4), f32x4.mul(a3, scale4));
}
