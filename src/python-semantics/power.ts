// Conversion of exact integers to the nearest float, and x ** y of floats, correctly rounded.
// JavaScript's `**` is off by one unit in the last place for one pair in twelve, which is visible
// in every result of more than 13 digits; the C library that CPython calls is correctly rounded
// nearly always.

/**
 * Number of fraction bits of the fixed-point numbers below: 53 for the result, 11 for the exponent,
 * the rest against near-ties.
 */
const bits = 256n;
const one = 1n << bits;

/** The power of a finite positive base other than 1 with a finite exponent; overflows to Infinity, underflows to 0. */
export function positivePower(base: number, exponent: number): number {
  const estimate = Math.log2(base) * exponent;
  if (estimate > 1025) return Infinity;
  if (estimate < -1080) return 0;
  const [mantissa, scale] = decompose(base);
  // An exact result may be half-way between two floats, which no number of fraction bits could
  // decide.
  if (Number.isInteger(exponent) && exponent > 0 && bitLength(mantissa) * exponent <= 4096) {
    return scaled(mantissa ** BigInt(exponent), scale * exponent);
  }
  const [exponentMantissa, exponentScale] = decompose(exponent);
  const log2 = (BigInt(scale + bitLength(mantissa) - 1) << bits) + log2Fraction(mantissa);
  const product = shifted(log2 * exponentMantissa, exponentScale);
  const whole = product >> bits;
  return scaled(exponential2(product - (whole << bits)), Number(whole - bits));
}

/** An integer, odd or zero, and a power of two whose product is the value. */
function decompose(value: number): readonly [mantissa: bigint, scale: number] {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, value);
  const word = view.getBigUint64(0);
  const field = Number((word >> 52n) & 0x7ffn);
  let mantissa = (word & 0xfffffffffffffn) | (field === 0 ? 0n : 1n << 52n);
  let scale = (field === 0 ? 1 : field) - 1075;
  while (mantissa !== 0n && (mantissa & 1n) === 0n) {
    mantissa >>= 1n;
    scale++;
  }
  return [value < 0 ? -mantissa : mantissa, scale];
}

/** log2 of the mantissa scaled into [1, 2): ln(m) = 2 artanh((m - 1) / (m + 1)). */
function log2Fraction(mantissa: bigint): bigint {
  const normalized = (mantissa << bits) >> BigInt(bitLength(mantissa) - 1);
  return (naturalLog(normalized) << bits) / naturalLog(2n * one);
}

function naturalLog(value: bigint): bigint {
  const ratio = ((value - one) << bits) / (value + one);
  const square = (ratio * ratio) >> bits;
  let sum = 0n;
  let term = ratio;
  for (let divisor = 1n; term !== 0n; divisor += 2n) {
    sum += term / divisor;
    term = (term * square) >> bits;
  }
  return sum * 2n;
}

/** 2 ** fraction for a fraction in [0, 1). */
function exponential2(fraction: bigint): bigint {
  const x = (fraction * naturalLog(2n * one)) >> bits;
  let sum = 0n;
  let term = one;
  for (let index = 1n; term !== 0n; index++) {
    sum += term;
    term = ((term * x) >> bits) / index;
  }
  return sum;
}

function shifted(value: bigint, scale: number): bigint {
  return scale >= 0 ? value << BigInt(scale) : value >> BigInt(-scale);
}

function scaled(value: bigint, scale: number): number {
  return scale >= 0 ? roundRatio(value << BigInt(scale), 1n) : roundRatio(value, 1n << BigInt(-scale));
}

/** Number of bits of |value|; 0 for 0. */
export function bitLength(value: bigint): number {
  const magnitude = value < 0n ? -value : value;
  if (magnitude <= 0xffffffffn) return 32 - Math.clz32(Number(magnitude));
  const hex = magnitude.toString(16);
  return hex.length * 4 - Math.clz32(parseInt(hex[0]!, 16)) + 28;
}

/**
 * The float nearest to `numerator / denominator`; infinite if out of range. The denominator must
 * not be 0.
 */
export function roundRatio(numerator: bigint, denominator: bigint): number {
  if (numerator === 0n) return 0;
  const isNegative = numerator < 0n !== denominator < 0n;
  const top = numerator < 0n ? -numerator : numerator;
  const bottom = denominator < 0n ? -denominator : denominator;
  const magnitude = roundPositive(top, bottom);
  return isNegative ? -magnitude : magnitude;
}

function roundPositive(top: bigint, bottom: bigint): number {
  const exponent = bitLength(top) - bitLength(bottom);
  if (exponent > 1025) return Infinity;
  if (exponent < -1080) return 0;
  // 66 bits plus a sticky bit suffice for correct rounding to 53; below 2^-1022 floats are
  // multiples of 2^-1074, so at most that many bits may be requested.
  const shift = Math.min(66 - exponent, 1074);
  if (shift === 1074) return Number(halfEven(top << 1074n, bottom)) * 2 ** -1074;
  const dividend = shift >= 0 ? top << BigInt(shift) : top;
  const divisor = shift >= 0 ? bottom : bottom << BigInt(-shift);
  const quotient = dividend / divisor;
  const sticky = quotient * divisor === dividend ? 0n : 1n;
  return Number((quotient << 1n) | sticky) * 2 ** (-shift - 1);
}

function halfEven(top: bigint, bottom: bigint): bigint {
  const quotient = top / bottom;
  const twice = (top - quotient * bottom) << 1n;
  if (twice < bottom) return quotient;
  return twice > bottom || (quotient & 1n) === 1n ? quotient + 1n : quotient;
}
