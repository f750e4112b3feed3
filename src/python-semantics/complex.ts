// Complex arithmetic with CPython's results. For us a complex result is always an error (`float()`
// rejects it), so the values matter only if they decide which error occurs: a zero divisor, an
// overflow.

import { PythonError } from "./errors.ts";
import { floatRepr } from "./number-text.ts";
import { PythonOpaque } from "./values.ts";

export class PythonComplex extends PythonOpaque {
  readonly real: number;
  readonly imaginary: number;

  constructor(real: number, imaginary: number) {
    super("complex", "");
    this.real = real;
    this.imaginary = imaginary;
  }

  override repr(): string {
    const part = (value: number): string => floatRepr(value).replace(/\.0$/, "");
    const imaginary = `${part(this.imaginary)}j`;
    return Object.is(this.real, 0)
      ? imaginary
      : `(${part(this.real)}${imaginary.startsWith("-") ? "" : "+"}${imaginary})`;
  }
}

/**
 * `null` for an operator that complex numbers do not support. Throws a `ZeroDivisionError` for a
 * zero divisor, and the errors of {@link powerComplex}.
 */
export function calculateComplex(operator: string, left: PythonComplex, right: PythonComplex): PythonComplex | null {
  switch (operator) {
    case "+":
      return new PythonComplex(left.real + right.real, left.imaginary + right.imaginary);
    case "-":
      return new PythonComplex(left.real - right.real, left.imaginary - right.imaginary);
    case "*":
      return multiply(left, right);
    case "/": {
      const quotient = quotientOf(left, right);
      if (quotient === null) throw new PythonError("ZeroDivisionError", "complex division by zero");
      return quotient;
    }
    case "**":
      return powerComplex(left, right);
    default:
      return null;
  }
}

/**
 * Throws a `ZeroDivisionError` for a negative or complex power of 0, an `OverflowError` if the
 * result is infinite.
 */
export function powerComplex(base: PythonComplex, exponent: PythonComplex): PythonComplex {
  const isSmallInteger = exponent.imaginary === 0 && Number.isInteger(exponent.real) && Math.abs(exponent.real) <= 100;
  const power = isSmallInteger ? integerPower(base, exponent.real) : generalPower(base, exponent);
  if (power === null) throw new PythonError("ZeroDivisionError", "0.0 to a negative or complex power");
  if (Math.abs(power.real) === Infinity || Math.abs(power.imaginary) === Infinity) {
    throw new PythonError("OverflowError", "complex exponentiation");
  }
  return power;
}

function multiply(left: PythonComplex, right: PythonComplex): PythonComplex {
  return new PythonComplex(
    left.real * right.real - left.imaginary * right.imaginary,
    left.real * right.imaginary + left.imaginary * right.real,
  );
}

/** Division by Smith's method; `null` if the divisor is 0. */
function quotientOf(left: PythonComplex, right: PythonComplex): PythonComplex | null {
  if (Math.abs(right.real) >= Math.abs(right.imaginary)) {
    if (right.real === 0) return null;
    const ratio = right.imaginary / right.real;
    const denominator = right.real + right.imaginary * ratio;
    return new PythonComplex(
      (left.real + left.imaginary * ratio) / denominator,
      (left.imaginary - left.real * ratio) / denominator,
    );
  }
  const ratio = right.real / right.imaginary;
  const denominator = right.real * ratio + right.imaginary;
  return new PythonComplex(
    (left.real * ratio + left.imaginary) / denominator,
    (left.imaginary * ratio - left.real) / denominator,
  );
}

function integerPower(base: PythonComplex, exponent: number): PythonComplex | null {
  const unit = new PythonComplex(1, 0);
  let result = unit;
  let square = base;
  for (let rest = Math.abs(exponent); rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) result = multiply(result, square);
    square = multiply(square, square);
  }
  return exponent > 0 ? result : quotientOf(unit, result);
}

function generalPower(base: PythonComplex, exponent: PythonComplex): PythonComplex | null {
  if (base.real === 0 && base.imaginary === 0) {
    return exponent.imaginary !== 0 || exponent.real < 0 ? null : new PythonComplex(0, 0);
  }
  const magnitude = Math.hypot(base.real, base.imaginary);
  const angle = Math.atan2(base.imaginary, base.real);
  let length = magnitude ** exponent.real;
  let phase = angle * exponent.real;
  if (exponent.imaginary !== 0) {
    length /= Math.exp(angle * exponent.imaginary);
    phase += exponent.imaginary * Math.log(magnitude);
  }
  return new PythonComplex(length * Math.cos(phase), length * Math.sin(phase));
}
