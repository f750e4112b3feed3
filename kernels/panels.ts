// Copies matrices into panels of 8 columns, the order in which tiles read the right-hand side of a
// product. A panel holds its columns row by row: [depth][8]. Missing columns of the last panel are
// zero.

/**
 * Packs a matrix whose rows run along the depth: source[depth][columns]. `stride` counts floats
 * between rows.
 */
export function packRows(source: usize, stride: i32, depth: i32, columns: i32, target: usize): void {
  const step = usize(stride) << 2;
  for (let column = 0; column < columns; column += 8) {
    let row = source + (usize(column) << 2);
    if (columns - column >= 8) {
      for (let k = 0; k < depth; k++, row += step, target += 32) {
        v128.store(target, v128.load(row));
        v128.store(target, v128.load(row, 16), 16);
      }
    } else {
      for (let k = 0; k < depth; k++, row += step, target += 32) copyWithZeros(row, columns - column, target);
    }
  }
}

function copyWithZeros(source: usize, count: i32, target: usize): void {
  v128.store(target, f32x4.splat(0));
  v128.store(target, f32x4.splat(0), 16);
  for (let index = 0; index < count; index++) {
    store<f32>(target + (usize(index) << 2), load<f32>(source + (usize(index) << 2)));
  }
}

/**
 * Packs a matrix whose rows are the required columns: source[columns][depth]. `depth` is a multiple
 * of 4.
 */
export function packColumns(source: usize, stride: i32, depth: i32, columns: i32, target: usize): void {
  const step = usize(stride) << 2;
  const panelBytes = usize(depth) << 5;
  for (let column = 0; column < columns; column += 8) {
    const rows = source + usize(column) * step;
    transpose4(rows, step, min(4, columns - column), depth, target);
    transpose4(rows + step * 4, step, max(0, min(4, columns - column - 4)), depth, target + 16);
    target += panelBytes;
  }
}

/** Writes four rows as half the columns of a panel; only the first `count` of them exist. */
function transpose4(row0: usize, step: usize, count: i32, depth: i32, target: usize): void {
  const row1 = row0 + step;
  const row2 = row1 + step;
  const row3 = row2 + step;
  const zero = f32x4.splat(0);
  const end = usize(depth) << 2;
  for (let at: usize = 0; at < end; at += 16, target += 128) {
    const a = count > 0 ? v128.load(row0 + at) : zero;
    const b = count > 1 ? v128.load(row1 + at) : zero;
    const c = count > 2 ? v128.load(row2 + at) : zero;
    const d = count > 3 ? v128.load(row3 + at) : zero;
    const abLow = v128.shuffle<f32>(a, b, 0, 4, 1, 5);
    const abHigh = v128.shuffle<f32>(a, b, 2, 6, 3, 7);
    const cdLow = v128.shuffle<f32>(c, d, 0, 4, 1, 5);
    const cdHigh = v128.shuffle<f32>(c, d, 2, 6, 3, 7);
    v128.store(target, v128.shuffle<f32>(abLow, cdLow, 0, 1, 4, 5));
    v128.store(target, v128.shuffle<f32>(abLow, cdLow, 2, 3, 6, 7), 32);
    v128.store(target, v128.shuffle<f32>(abHigh, cdHigh, 0, 1, 4, 5), 64);
    v128.store(target, v128.shuffle<f32>(abHigh, cdHigh, 2, 3, 6, 7), 96);
  }
}

/** Writes four neighbouring columns of source[depth][...] as interleaved rows: [depth][4]. */
export function interleave4(source: usize, stride: i32, depth: i32, target: usize): void {
  const step = usize(stride) << 2;
  for (let k = 0; k < depth; k++, source += step, target += 16) v128.store(target, v128.load(source));
}
