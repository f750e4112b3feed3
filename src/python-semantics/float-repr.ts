// Python's text of a float: the digits are those of JavaScript (both shortest round-trip), the layout is not.

/** `repr(float)`: always with a point or an exponent, exponent form below 1e-4 and from 1e16; `inf`, `-inf`, `nan`. */
export function floatRepr(value: number): string {
  if (!Number.isFinite(value)) return value !== value ? "nan" : value > 0 ? "inf" : "-inf";
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
    const text = Object.is(value, -0) ? "-0" : String(value);
    return Number.isInteger(value) ? `${text}.0` : text;
  }
  const [digits, exponent] = value.toExponential().split("e") as [string, string];
  const sign = exponent.startsWith("-") ? "-" : "+";
  return `${digits}e${sign}${exponent.slice(1).padStart(2, "0")}`;
}
