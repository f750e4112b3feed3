// The innermost loops of matrix multiplication: small blocks of the result kept in registers. V8
// keeps eight accumulators in registers and spills more, so a tile is 4 rows of 8 columns, or 1 row
// of 32 if there are fewer rows (`npm run bench -- kernels` compares the shapes). Every tile adds
// the products of an element in the same order, so a row of a result has the same bits in any tile.
//
// A panel holds 8 columns of the right-hand matrix, row by row: [depth][8].

import { multiplyAdd } from "./vector";

/** c[4][8] (+)= a[4][depth] * panel[depth][8]. Strides are bytes between rows. */
export function tile4x8(
  depth: i32,
  a: usize,
  aStride: usize,
  panel: usize,
  c: usize,
  cStride: usize,
  accumulate: bool,
): void {
  let c00 = f32x4.splat(0);
  let c01 = f32x4.splat(0);
  let c10 = f32x4.splat(0);
  let c11 = f32x4.splat(0);
  let c20 = f32x4.splat(0);
  let c21 = f32x4.splat(0);
  let c30 = f32x4.splat(0);
  let c31 = f32x4.splat(0);
  let a1 = a + aStride;
  let a2 = a1 + aStride;
  let a3 = a2 + aStride;
  for (const end = panel + (usize(depth) << 5); panel < end; panel += 32) {
    const b0 = v128.load(panel);
    const b1 = v128.load(panel, 16);
    let x = v128.load_splat<f32>(a);
    c00 = multiplyAdd(x, b0, c00);
    c01 = multiplyAdd(x, b1, c01);
    x = v128.load_splat<f32>(a1);
    c10 = multiplyAdd(x, b0, c10);
    c11 = multiplyAdd(x, b1, c11);
    x = v128.load_splat<f32>(a2);
    c20 = multiplyAdd(x, b0, c20);
    c21 = multiplyAdd(x, b1, c21);
    x = v128.load_splat<f32>(a3);
    c30 = multiplyAdd(x, b0, c30);
    c31 = multiplyAdd(x, b1, c31);
    a += 4;
    a1 += 4;
    a2 += 4;
    a3 += 4;
  }
  put8(c, c00, c01, accumulate);
  put8(c + cStride, c10, c11, accumulate);
  put8(c + cStride * 2, c20, c21, accumulate);
  put8(c + cStride * 3, c30, c31, accumulate);
}

/** Like {@link tile4x8}, with the left-hand rows interleaved: [depth][4]. */
export function tile4x8Interleaved(
  depth: i32,
  a: usize,
  panel: usize,
  c: usize,
  cStride: usize,
  accumulate: bool,
): void {
  let c00 = f32x4.splat(0);
  let c01 = f32x4.splat(0);
  let c10 = f32x4.splat(0);
  let c11 = f32x4.splat(0);
  let c20 = f32x4.splat(0);
  let c21 = f32x4.splat(0);
  let c30 = f32x4.splat(0);
  let c31 = f32x4.splat(0);
  for (const end = panel + (usize(depth) << 5); panel < end; panel += 32) {
    const b0 = v128.load(panel);
    const b1 = v128.load(panel, 16);
    let x = v128.load_splat<f32>(a);
    c00 = multiplyAdd(x, b0, c00);
    c01 = multiplyAdd(x, b1, c01);
    x = v128.load_splat<f32>(a, 4);
    c10 = multiplyAdd(x, b0, c10);
    c11 = multiplyAdd(x, b1, c11);
    x = v128.load_splat<f32>(a, 8);
    c20 = multiplyAdd(x, b0, c20);
    c21 = multiplyAdd(x, b1, c21);
    x = v128.load_splat<f32>(a, 12);
    c30 = multiplyAdd(x, b0, c30);
    c31 = multiplyAdd(x, b1, c31);
    a += 16;
  }
  put8(c, c00, c01, accumulate);
  put8(c + cStride, c10, c11, accumulate);
  put8(c + cStride * 2, c20, c21, accumulate);
  put8(c + cStride * 3, c30, c31, accumulate);
}

/** One row against four panels, whose beginnings lie `panelStride` bytes apart. */
export function tile1x32(depth: i32, a: usize, panel: usize, panelStride: usize, c: usize, accumulate: bool): void {
  let c0 = f32x4.splat(0);
  let c1 = f32x4.splat(0);
  let c2 = f32x4.splat(0);
  let c3 = f32x4.splat(0);
  let c4 = f32x4.splat(0);
  let c5 = f32x4.splat(0);
  let c6 = f32x4.splat(0);
  let c7 = f32x4.splat(0);
  let panel1 = panel + panelStride;
  let panel2 = panel1 + panelStride;
  let panel3 = panel2 + panelStride;
  for (const end = panel + (usize(depth) << 5); panel < end; panel += 32) {
    const x = v128.load_splat<f32>(a);
    c0 = multiplyAdd(x, v128.load(panel), c0);
    c1 = multiplyAdd(x, v128.load(panel, 16), c1);
    c2 = multiplyAdd(x, v128.load(panel1), c2);
    c3 = multiplyAdd(x, v128.load(panel1, 16), c3);
    c4 = multiplyAdd(x, v128.load(panel2), c4);
    c5 = multiplyAdd(x, v128.load(panel2, 16), c5);
    c6 = multiplyAdd(x, v128.load(panel3), c6);
    c7 = multiplyAdd(x, v128.load(panel3, 16), c7);
    a += 4;
    panel1 += 32;
    panel2 += 32;
    panel3 += 32;
  }
  put8(c, c0, c1, accumulate);
  put8(c + 32, c2, c3, accumulate);
  put8(c + 64, c4, c5, accumulate);
  put8(c + 96, c6, c7, accumulate);
}

/** One row against one panel. */
export function tile1x8(depth: i32, a: usize, panel: usize, c: usize, accumulate: bool): void {
  let c0 = f32x4.splat(0);
  let c1 = f32x4.splat(0);
  for (const end = panel + (usize(depth) << 5); panel < end; panel += 32) {
    const x = v128.load_splat<f32>(a);
    c0 = multiplyAdd(x, v128.load(panel), c0);
    c1 = multiplyAdd(x, v128.load(panel, 16), c1);
    a += 4;
  }
  put8(c, c0, c1, accumulate);
}

function put8(c: usize, left: v128, right: v128, accumulate: bool): void {
  if (accumulate) {
    left = f32x4.add(v128.load(c), left);
    right = f32x4.add(v128.load(c, 16), right);
  }
  v128.store(c, left);
  v128.store(c, right, 16);
}
