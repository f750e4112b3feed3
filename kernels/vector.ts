// Four floats at a time: the operations that every kernel is made of. The same source is built twice: with relaxed SIMD,
// where a product and a sum are one fused instruction, and without, for hosts that lack it.

/** a * b + c. */
export function multiplyAdd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(c, f32x4.mul(a, b));
}

/** Always in this order, so that a sum never depends on who asks for it. */
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
  return f32x4.div(one, f32x4.add(one, exponential(f32x4.neg(x))));
}

/**
 * e^x to about one unit in the last place, by the usual reduction to [-ln2/2, ln2/2] and a polynomial of degree 7 (Cephes
 * expf). Clamped to what floats hold, so it is never 0 and never infinite.
 */
export function exponential(x: v128): v128 {
  const clamped = f32x4.max(f32x4.min(x, f32x4.splat(88)), f32x4.splat(-87));
  const power = f32x4.nearest(f32x4.mul(clamped, f32x4.splat(1.44269504)));
  let rest = multiplyAdd(power, f32x4.splat(-0.693359375), clamped);
  rest = multiplyAdd(power, f32x4.splat(2.1219444e-4), rest);
  let sum = f32x4.splat(1.98756915e-4);
  sum = multiplyAdd(sum, rest, f32x4.splat(1.39819995e-3));
  sum = multiplyAdd(sum, rest, f32x4.splat(8.33345191e-3));
  sum = multiplyAdd(sum, rest, f32x4.splat(4.16657962e-2));
  sum = multiplyAdd(sum, rest, f32x4.splat(0.166666656));
  sum = multiplyAdd(sum, rest, f32x4.splat(0.5));
  sum = multiplyAdd(sum, f32x4.mul(rest, rest), f32x4.add(rest, f32x4.splat(1)));
  const exponent = i32x4.shl(i32x4.add(i32x4.trunc_sat_f32x4_s(power), i32x4.splat(127)), 23);
  return f32x4.mul(sum, exponent);
}
