// Exact integers to the nearest float, ties to even: what CPython's int arithmetic gives where it leaves the integers.

/** Bits of |value|; 0 for 0. */
export function bitLength(value: bigint): number {
  const magnitude = value < 0n ? -value : value;
  if (magnitude <= 0xffffffffn) return 32 - Math.clz32(Number(magnitude));
  const hex = magnitude.toString(16);
  return hex.length * 4 - Math.clz32(parseInt(hex[0]!, 16)) + 28;
}

/** The float nearest to `numerator / denominator`; infinite when that is out of range. The denominator is not 0. */
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
  // 66 bits and one that says whether anything is left round to 53 correctly; below 2^-1022 floats are multiples of
  // 2^-1074, and only that many bits may be asked for.
  const shift = Math.min(66 - exponent, 1074);
  if (shift === 1074) return Number(halfEven(top << 1074n, bottom)) * 2 ** -1074;
  const scaled = shift >= 0 ? top << BigInt(shift) : top;
  const divisor = shift >= 0 ? bottom : bottom << BigInt(-shift);
  const quotient = scaled / divisor;
  const sticky = quotient * divisor === scaled ? 0n : 1n;
  return Number((quotient << 1n) | sticky) * 2 ** (-shift - 1);
}

function halfEven(top: bigint, bottom: bigint): bigint {
  const quotient = top / bottom;
  const twice = (top - quotient * bottom) << 1n;
  if (twice < bottom) return quotient;
  return twice > bottom || (quotient & 1n) === 1n ? quotient + 1n : quotient;
}
