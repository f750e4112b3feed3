// x ** y of floats, correctly rounded. JavaScript's `**` is off by a unit in the last place for one pair in twelve, which
// shows in every result of more than 13 digits; the C library CPython calls is correctly rounded nearly always.

import { bitLength, roundRatio } from "./round-ratio.ts";

/** Fraction bits of the fixed-point numbers below: 53 of the result, 11 of the exponent, the rest against near-ties. */
const bits = 256n;
const one = 1n << bits;

/** The power of a finite positive base other than 1 with a finite exponent; overflows to Infinity, underflows to 0. */
export function positivePower(base: number, exponent: number): number {
  const estimate = Math.log2(base) * exponent;
  if (estimate > 1025) return Infinity;
  if (estimate < -1080) return 0;
  const [mantissa, scale] = decompose(base);
  // An exact result may lie half-way between two floats, which no number of fraction bits could tell.
  if (Number.isInteger(exponent) && exponent > 0 && bitLength(mantissa) * exponent <= 4096) {
    return scaled(mantissa ** BigInt(exponent), scale * exponent);
  }
  const [exponentMantissa, exponentScale] = decompose(exponent);
  const log2 = (BigInt(scale + bitLength(mantissa) - 1) << bits) + log2Fraction(mantissa);
  const product = shifted(log2 * exponentMantissa, exponentScale);
  const whole = product >> bits;
  return scaled(exponential2(product - (whole << bits)), Number(whole - bits));
}

/** The odd-or-zero integer and the power of two whose product is the value. */
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
