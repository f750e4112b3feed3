// Numbers as Python's format types write them: `f e g d x o b %`. Ties round to even, as the exact binary value demands.

import { roundFloat } from "../../../python-semantics/index.ts";
import { limitError } from "../values/raise.ts";

/** Digits after the point that are worked out exactly; JavaScript offers no more. */
const maxPrecision = 100;

/** The digits of a non-negative finite float in format `f`, `e`, `g` (or `%`, which multiplies first). */
export function floatDigits(value: number, type: string, precision: number, isAlternate = false): string {
  if (precision > maxPrecision) throw limitError(`it asks for more than ${maxPrecision} digits`);
  switch (type) {
    case "%":
      return `${fixed(value * 100, precision)}%`;
    case "e":
      return exponential(value, precision);
    case "g":
      return general(value, precision === 0 ? 1 : precision, isAlternate);
    default:
      return fixed(value, precision);
  }
}

/** The digits of a non-negative integer in base 2, 8, 10 or 16. */
export function integerDigits(value: bigint, type: string): string {
  return value.toString({ b: 2, o: 8, x: 16 }[type] ?? 10);
}

function fixed(value: number, precision: number): string {
  if (value >= 1e21) return BigInt(value).toString() + (precision > 0 ? `.${"0".repeat(precision)}` : "");
  return precision <= 22 ? roundFloat(value, precision).toFixed(precision) : value.toFixed(precision);
}

function exponential(value: number, precision: number): string {
  const [digits, exponent] = value.toExponential(precision).split("e") as [string, string];
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}

/** Significant digits, without trailing zeros, in exponent form for what is very small or large. */
function general(value: number, precision: number, isAlternate: boolean): string {
  const exponent = value === 0 ? 0 : Number(value.toExponential(precision - 1).split("e")[1]);
  const isExponential = exponent < -4 || exponent >= precision;
  const text = isExponential ? exponential(value, precision - 1) : fixed(value, precision - 1 - exponent);
  if (isAlternate || !text.includes(".")) return text;
  return text.replace(/\.?0+(?=e|$)/, "");
}
