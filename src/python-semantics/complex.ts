// Complex arithmetic as CPython does it. A complex result is always an error for us (`float()` refuses it), so the values
// matter only where they decide which error: a zero divisor, an overflow.

import { PythonError } from "./errors.ts";

export type Complex = { readonly real: number; readonly imaginary: number };

export function addComplex(left: Complex, right: Complex): Complex {
  return { real: left.real + right.real, imaginary: left.imaginary + right.imaginary };
}

export function subtractComplex(left: Complex, right: Complex): Complex {
  return { real: left.real - right.real, imaginary: left.imaginary - right.imaginary };
}

export function multiplyComplex(left: Complex, right: Complex): Complex {
  return {
    real: left.real * right.real - left.imaginary * right.imaginary,
    imaginary: left.real * right.imaginary + left.imaginary * right.real,
  };
}

/** Throws a `ZeroDivisionError` for a zero divisor. */
export function divideComplex(left: Complex, right: Complex): Complex {
  const quotient = quotientOf(left, right);
  if (quotient === null) throw new PythonError("ZeroDivisionError", "complex division by zero");
  return quotient;
}

/** Throws a `ZeroDivisionError` for a negative or complex power of 0, an `OverflowError` when the result is infinite. */
export function powerComplex(base: Complex, exponent: Complex): Complex {
  const isSmallInteger = exponent.imaginary === 0 && Number.isInteger(exponent.real) && Math.abs(exponent.real) <= 100;
  const power = isSmallInteger ? integerPower(base, exponent.real) : generalPower(base, exponent);
  if (power === null) throw new PythonError("ZeroDivisionError", "0.0 to a negative or complex power");
  if (Math.abs(power.real) === Infinity || Math.abs(power.imaginary) === Infinity) {
    throw new PythonError("OverflowError", "complex exponentiation");
  }
  return power;
}

/** Smith's method; `null` when the divisor is 0. */
function quotientOf(left: Complex, right: Complex): Complex | null {
  if (Math.abs(right.real) >= Math.abs(right.imaginary)) {
    if (right.real === 0) return null;
    const ratio = right.imaginary / right.real;
    const denominator = right.real + right.imaginary * ratio;
    return {
      real: (left.real + left.imaginary * ratio) / denominator,
      imaginary: (left.imaginary - left.real * ratio) / denominator,
    };
  }
  const ratio = right.real / right.imaginary;
  const denominator = right.real * ratio + right.imaginary;
  return {
    real: (left.real * ratio + left.imaginary) / denominator,
    imaginary: (left.imaginary * ratio - left.real) / denominator,
  };
}

function integerPower(base: Complex, exponent: number): Complex | null {
  const unit = { real: 1, imaginary: 0 };
  let result = unit;
  let square = base;
  for (let rest = Math.abs(exponent); rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = multiplyComplex(result, square);
    square = multiplyComplex(square, square);
  }
  return exponent > 0 ? result : quotientOf(unit, result);
}

function generalPower(base: Complex, exponent: Complex): Complex | null {
  if (base.real === 0 && base.imaginary === 0) {
    return exponent.imaginary !== 0 || exponent.real < 0 ? null : { real: 0, imaginary: 0 };
  }
  const magnitude = Math.hypot(base.real, base.imaginary);
  const angle = Math.atan2(base.imaginary, base.real);
  let length = magnitude ** exponent.real;
  let phase = angle * exponent.real;
  if (exponent.imaginary !== 0) {
    length /= Math.exp(angle * exponent.imaginary);
    phase += exponent.imaginary * Math.log(magnitude);
  }
  return { real: length * Math.cos(phase), imaginary: length * Math.sin(phase) };
}
