// Order of Python strings: by code point. JavaScript compares UTF-16 units, which puts astral characters before U+E000.

/** Negative, zero or positive, for `Array.prototype.sort`. */
export function compareCodePoints(left: string, right: string): number {
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const a = left.charCodeAt(index);
    const b = right.charCodeAt(index);
    if (a !== b) return rank(left, index, a) - rank(right, index, b);
  }
  return left.length - right.length;
}

/** The unit, with those of surrogate pairs lifted above everything in the basic plane; lone surrogates stay where they are. */
function rank(text: string, index: number, unit: number): number {
  if ((unit & 0xf800) !== 0xd800) return unit;
  const isHigh = unit < 0xdc00;
  const neighbour = text.charCodeAt(isHigh ? index + 1 : index - 1);
  const isPaired = isHigh ? (neighbour & 0xfc00) === 0xdc00 : (neighbour & 0xfc00) === 0xd800;
  return isPaired ? unit + 0x10000 : unit;
}
