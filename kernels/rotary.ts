// Rotary positions in Qwen's layout: the first half of a head is rotated against the second.

/**
 * Rotates in place: x[rows][heads * size], by the angle of each row's position. `cosines` and `sines` are
 * [position][size / 2]; `isBackward` rotates the other way, which is the gradient. `size` is a multiple of 8.
 */
export function rotate(
  x: usize,
  rows: i32,
  heads: i32,
  size: i32,
  positions: usize,
  cosines: usize,
  sines: usize,
  isBackward: bool,
): void {
  const half = usize(size) << 1;
  for (let row = 0; row < rows; row++) {
    const offset = usize(load<u32>(positions + (usize(row) << 2))) * half;
    for (let head = 0; head < heads; head++, x += half * 2) {
      for (let at: usize = 0; at < half; at += 16) {
        const cosine = v128.load(cosines + offset + at);
        const written = v128.load(sines + offset + at);
        const sine = isBackward ? f32x4.neg(written) : written;
        const left = v128.load(x + at);
        const right = v128.load(x + half + at);
        v128.store(x + at, f32x4.sub(f32x4.mul(left, cosine), f32x4.mul(right, sine)));
        v128.store(x + half + at, f32x4.add(f32x4.mul(right, cosine), f32x4.mul(left, sine)));
      }
    }
  }
}
