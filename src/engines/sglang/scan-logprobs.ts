// Reads the logprobs of a reply directly from its bytes. `JSON.parse` allocates an array and two
// numbers for every token, and that is most of a turn's CPU cost here (measured: 6 times the CPU of
// this). It knows only the notation that SGLang writes; anything else is left to `JSON.parse`,
// which also reports errors.

import { copyIds, smallFloat32Array } from "../../lib/bytes.ts";

export type Logged = {
  /** One id per sampled token. */
  readonly ids: Uint32Array;
  /** Aligned with `ids`. */
  readonly logprobs: Float32Array;
};

export type ScannedLogprobs = Logged & {
  /** Position of the list's content in the bytes: `[start, end)`, brackets not included. */
  readonly start: number;
  readonly end: number;
};

/** Quotes inside JSON text are escaped, so these bytes are a key unless a backslash precedes them. */
const key = Buffer.from('"output_token_logprobs":[');
/** The third item of an entry if no text was requested. */
const noText = Buffer.from(",null]");
/** Minimum number of bytes of an entry and its comma: `[0,0,null],`. */
const leastEntry = 11;

const comma = 44;
const minus = 45;
const plus = 43;
const point = 46;
const zero = 48;
const open = 91;
const backslash = 92;
const close = 93;
const lowerE = 101;
const upperE = 69;

/** Correctly rounded powers of ten. */
const powers = Float64Array.from({ length: 309 }, (_, exponent) => Number(`1e${exponent}`));
/** Doubles are never printed with more significant digits; such a number is left to JSON.parse. */
const mostMantissa = 1e19;
/** Maximum number of entries in the reused buffer; longer replies are rare and get their own. */
const mostScratch = 65_536;
/**
 * Upper bound of the error of a few rounded factors: if such an error could change the 32-bit
 * result, the number is parsed exactly.
 */
const margin = 1e-15;

/**
 * The only list of logprobs in the bytes; `null` if there is none, more than one, or one in another
 * notation.
 */
export function scanLogprobs(bytes: Buffer): ScannedLogprobs | null {
  const at = bytes.indexOf(key);
  if (at < 1 || bytes[at - 1] === backslash) return null;
  const start = at + key.length;
  const { ids, logprobs } = takeScratch(Math.ceil((bytes.length - start) / leastEntry) + 1);
  const cursor = new Cursor(bytes, start);
  let count = 0;
  while (bytes[cursor.place] !== close) {
    if (count > 0 && !cursor.skip(comma)) return null;
    if (!cursor.skip(open)) return null;
    const logprob = cursor.readNumber();
    if (Number.isNaN(logprob) || !cursor.skip(comma)) return null;
    const id = cursor.readId();
    if (id < 0 || !cursor.skipNoText()) return null;
    logprobs[count] = logprob;
    ids[count] = id;
    count += 1;
  }
  if (bytes.indexOf(key, cursor.place) >= 0) return null;
  const kept = smallFloat32Array(count);
  for (let index = 0; index < count; index++) kept[index] = logprobs[index] ?? 0;
  return { ids: copyIds(ids, count), logprobs: kept, start, end: cursor.place };
}

let scratch: Logged = { ids: new Uint32Array(4096), logprobs: new Float32Array(4096) };

/** A buffer for entries, valid until the next call: their number is known only at the end. */
function takeScratch(count: number): Logged {
  if (count > mostScratch) return { ids: new Uint32Array(count), logprobs: new Float32Array(count) };
  if (count > scratch.ids.length) {
    scratch = { ids: new Uint32Array(count * 2), logprobs: new Float32Array(count * 2) };
  }
  return scratch;
}

/**
 * A cursor over the bytes. It accepts nothing that JSON rejects, but rejects much that JSON
 * accepts.
 */
class Cursor {
  place: number;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer, place: number) {
    this.#bytes = bytes;
    this.place = place;
  }

  skip(byte: number): boolean {
    if (this.#bytes[this.place] !== byte) return false;
    this.place += 1;
    return true;
  }

  skipNoText(): boolean {
    for (const byte of noText) if (!this.skip(byte)) return false;
    return true;
  }

  /** Returns -1 if there is not a token id at this position. */
  readId(): number {
    const start = this.place;
    const id = this.#readDigits(0);
    const width = this.place - start;
    return width === 0 || width > 10 || id >= 2 ** 32 || (width > 1 && this.#bytes[start] === zero) ? -1 : id;
  }

  /** The number, rounded to 32 bits; NaN if it is missing, not finite or in unusual notation. */
  readNumber(): number {
    const start = this.place;
    const isNegative = this.skip(minus);
    const integerStart = this.place;
    let mantissa = this.#readDigits(0);
    const integerDigits = this.place - integerStart;
    if (integerDigits === 0 || (integerDigits > 1 && this.#bytes[integerStart] === zero)) return Number.NaN;
    let scale = 0;
    if (this.skip(point)) {
      const fractionStart = this.place;
      mantissa = this.#readDigits(mantissa);
      scale = this.place - fractionStart;
      if (scale === 0) return Number.NaN;
    }
    if (mantissa >= mostMantissa) return Number.NaN;
    const byte = this.#bytes[this.place];
    if (byte === lowerE || byte === upperE) {
      this.place += 1;
      const isSmall = this.skip(minus);
      if (!isSmall) this.skip(plus);
      const exponentStart = this.place;
      const exponent = this.#readDigits(0);
      if (this.place === exponentStart) return Number.NaN;
      scale += isSmall ? exponent : -exponent;
    }
    const power = powers[Math.abs(scale)];
    if (power === undefined) return Number.NaN;
    const value = scale < 0 ? mantissa * power : mantissa / power;
    const low = Math.fround(value * (1 - margin));
    const rounded = low === Math.fround(value * (1 + margin)) ? low : this.#exact(start);
    if (!Number.isFinite(rounded)) return Number.NaN;
    return isNegative ? -Math.abs(rounded) : rounded;
  }

  #readDigits(before: number): number {
    let value = before;
    for (;;) {
      const digit = (this.#bytes[this.place] ?? 0) - zero;
      if (digit < 0 || digit > 9) return value;
      value = value * 10 + digit;
      this.place += 1;
    }
  }

  #exact(start: number): number {
    return Math.fround(Number(this.#bytes.toString("latin1", start, this.place)));
  }
}
