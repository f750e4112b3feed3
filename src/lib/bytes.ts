// Cheap byte arrays for hot paths. Small typed arrays share memory: a separate array is an
// allocation outside of V8's heap, which V8 counts and sweeps, and with thousands of episodes that
// costs more than parsing a reply (`npm run bench -- concurrency`). Numbers are written as digits
// without creating strings.

const slabBytes = 16_384;
/** Larger arrays get their own memory. A small array that is retained also retains its whole slab. */
const mostBytes = 2048;

let slab = new ArrayBuffer(slabBytes);
let used = 0;

/** An array of zeros. Never use the `buffer` of such an array, because other arrays share it. */
export function smallUint32Array(length: number): Uint32Array {
  if (length * 4 > mostBytes) return new Uint32Array(length);
  const start = take(length * 4);
  return new Uint32Array(slab, start, length);
}

/** Like {@link smallUint32Array}, for floats. */
export function smallFloat32Array(length: number): Float32Array {
  if (length * 4 > mostBytes) return new Float32Array(length);
  const start = take(length * 4);
  return new Float32Array(slab, start, length);
}

/** Copies the first `length` entries of `from`. */
export function copyIds(from: ArrayLike<number>, length = from.length): Uint32Array {
  const ids = smallUint32Array(length);
  for (let at = 0; at < length; at++) ids[at] = from[at] ?? 0;
  return ids;
}

/** All parts concatenated in one array. */
export function joinIds(parts: readonly Uint32Array[]): Uint32Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const ids = smallUint32Array(length);
  let at = 0;
  for (const part of parts) {
    ids.set(part, at);
    at += part.length;
  }
  return ids;
}

function take(bytes: number): number {
  if (used + bytes > slabBytes) {
    slab = new ArrayBuffer(slabBytes);
    used = 0;
  }
  const start = used;
  used += bytes;
  return start;
}

const zero = 48;

/** Writes a whole number from 0 to 2^53 - 1 at `start`. Returns the end position. */
export function writeDigits(bytes: Uint8Array, start: number, number: number): number {
  const end = start + digits(number);
  let rest = number;
  for (let place = end - 1; place >= start; place--) {
    const tenth = Math.floor(rest / 10);
    bytes[place] = zero + (rest - tenth * 10);
    rest = tenth;
  }
  return end;
}

function digits(number: number): number {
  if (number < 10) return 1;
  if (number < 100) return 2;
  if (number < 1000) return 3;
  if (number < 10_000) return 4;
  if (number < 100_000) return 5;
  if (number < 1_000_000) return 6;
  return String(number).length;
}
