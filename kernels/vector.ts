// Operations on four floats at a time, of which every kernel is made. The same source is built
// twice: with relaxed SIMD, where a product and a sum are one fused instruction, and without, for
// hosts that lack it.

/** a * b + c. */
export function multiplyAdd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(c, f32x4.mul(a, b));
}

/** Always in this order, so that a sum does not depend on the caller. */
export function sumLanes(a: v128): f32 {
  return f32x4.extract_lane(a, 0) + f32x4.extract_lane(a, 1) + (f32x4.extract_lane(a, 2) + f32x4.extract_lane(a, 3));
}

export function maxLane(a: v128): f32 {
  return max(
    max(f32x4.extract_lane(a, 0), f32x4.extract_lane(a, 1)),
    max(f32x4.extract_lane(a, 2), f32x4.extract_lane(a, 3)),
  );
}

/** 1 / (1 + e^-x). */
export function sigmoid(x: v128): v128 {
  const one = f32x4.splat(1);
  return f32x4.div(one, f32x4.add(one, exponential(f32x4.pmin(f32x4.splat(87), f32x4.neg(x)))));
}

/** Added to a small number, it leaves the nearest integer in the low bits of the sum. */
const integerShift: f32 = 12_582_912;

/**
 * e^x, as 2^n * 2^rest with a polynomial of degree 6 for the rest (Cephes exp2f): accurate to a
 * unit in the last place around 0, to |x| units further out. Clamped below, so it is never 0;
 * overflow beyond the largest float is not checked. Uses only operations that are one instruction
 * each: WebAssembly's own rounding, conversion and maximum take several.
 */
export function exponential(x: v128): v128 {
  const scaled = f32x4.pmax(f32x4.splat(-126), f32x4.mul(x, f32x4.splat(1.44269504)));
  const shifted = f32x4.add(scaled, f32x4.splat(integerShift));
  const rest = f32x4.sub(scaled, f32x4.sub(shifted, f32x4.splat(integerShift)));
  let sum = f32x4.splat(1.535336188e-4);
  sum = multiplyAdd(sum, rest, f32x4.splat(1.33988744e-3));
  sum = multiplyAdd(sum, rest, f32x4.splat(9.618437357e-3));
  sum = multiplyAdd(sum, rest, f32x4.splat(5.550332471e-2));
  sum = multiplyAdd(sum, rest, f32x4.splat(0.2402264791));
  sum = multiplyAdd(sum, rest, f32x4.splat(0.6931472028));
  sum = multiplyAdd(sum, rest, f32x4.splat(1));
  // Adds the integer to the exponent.
  return i32x4.add(sum, i32x4.shl(shifted, 23));
}
