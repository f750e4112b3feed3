// Products of matrices. The right-hand side is always packed in panels (`panels.ts`): weights once
// per update, the rest when it is made. The left-hand side is read in place. An element of a result
// is the sum, over blocks of the depth, of sums in ascending order: a row gets the same bits for
// any number of rows.

import { interleave4 } from "./panels";
import { tile1x32, tile1x8, tile4x8, tile4x8Interleaved } from "./tiles";

/** A block of a panel (12 kB) and of four rows (6 kB) fit in the first-level cache together. */
const depthBlock: i32 = 384;
/** Rows that are multiplied by one panel before the next is fetched. */
const rowBlock: i32 = 64;

/**
 * c[rows][columns] (+)= a[rows][depth] * b[depth][columns]. `columns` is a multiple of 8; strides count floats between rows;
 * `panelDepth` is the depth that the panels were packed with, of which the first `depth` rows are used.
 */
export function multiply(
  rows: i32,
  columns: i32,
  depth: i32,
  a: usize,
  aStride: i32,
  panels: usize,
  panelDepth: i32,
  c: usize,
  cStride: i32,
  accumulate: bool,
): void {
  const aStep = usize(aStride) << 2;
  const cStep = usize(cStride) << 2;
  const panelBytes = usize(panelDepth) << 5;
  for (let k = 0; k < depth; k += depthBlock) {
    const count = min(depthBlock, depth - k);
    const isAdded = accumulate || k > 0;
    const aBlock = a + (usize(k) << 2);
    const panelBlock = panels + (usize(k) << 5);
    let row = 0;
    for (; row + 4 <= rows; row += rowBlock) {
      const end = min(row + rowBlock, rows & ~3);
      let panel = panelBlock;
      for (let column = 0; column < columns; column += 8, panel += panelBytes) {
        for (let at = row; at < end; at += 4) {
          const target = c + usize(at) * cStep + (usize(column) << 2);
          tile4x8(count, aBlock + usize(at) * aStep, aStep, panel, target, cStep, isAdded);
        }
      }
    }
    for (row = rows & ~3; row < rows; row++) {
      multiplyRow(columns, count, aBlock + usize(row) * aStep, panelBlock, panelBytes, c + usize(row) * cStep, isAdded);
    }
  }
}

function multiplyRow(
  columns: i32,
  depth: i32,
  a: usize,
  panel: usize,
  panelBytes: usize,
  c: usize,
  accumulate: bool,
): void {
  let column = 0;
  for (; column + 32 <= columns; column += 32, c += 128, panel += panelBytes * 4) {
    tile1x32(depth, a, panel, panelBytes, c, accumulate);
  }
  for (; column < columns; column += 8, c += 32, panel += panelBytes) tile1x8(depth, a, panel, c, accumulate);
}

/**
 * c[rows][columns] += transpose(a[depth][rows]) * b[depth][columns], for gradients of weights.
 * `rows` is a multiple of 4, `columns` of 8. `scratch` holds 16 bytes for each step of the depth
 * block.
 */
export function multiplyTransposed(
  rows: i32,
  columns: i32,
  depth: i32,
  a: usize,
  aStride: i32,
  panels: usize,
  panelDepth: i32,
  c: usize,
  cStride: i32,
  scratch: usize,
): void {
  const cStep = usize(cStride) << 2;
  const panelBytes = usize(panelDepth) << 5;
  for (let k = 0; k < depth; k += depthBlock) {
    const count = min(depthBlock, depth - k);
    const aBlock = a + ((usize(k) * usize(aStride)) << 2);
    for (let row = 0; row < rows; row += 4) {
      // Reading a column touches a page of memory at each step, so it is read once, not once per
      // panel.
      interleave4(aBlock + (usize(row) << 2), aStride, count, scratch);
      let panel = panels + (usize(k) << 5);
      let target = c + usize(row) * cStep;
      for (let column = 0; column < columns; column += 8, panel += panelBytes, target += 32) {
        tile4x8Interleaved(count, scratch, panel, target, cStep, true);
      }
    }
  }
}
