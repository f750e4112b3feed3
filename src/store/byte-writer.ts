// Collects lines for a file in one buffer that is reused: a string and a buffer for each line would
// cost more than writing it (`npm run bench -- turn-cost`).

import { writeDigits } from "../lib/bytes.ts";
import { unchanged } from "../lib/text.ts";

const firstBytes = 65_536;
/** A single huge batch must not keep its memory forever. */
const mostKept = 4 * 2 ** 20;
/** Longer strings are quoted and copied by V8, which is then faster than a loop. */
const longestLoop = 200;
const lineFeed = 10;
const quote = 34;
const backslash = 92;
const lowerN = 110;
/** Digits of the largest safe integer. */
const mostDigits = 16;
const base64Digits = Buffer.from("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/");

export class ByteWriter {
  #bytes = Buffer.allocUnsafeSlow(firstBytes);
  #length = 0;

  /** Bytes written so far. */
  get length(): number {
    return this.#length;
  }

  /** Bytes from `start` to `end`; valid until the writer is used again. */
  view(start = 0, end = this.#length): Buffer {
    return this.#bytes.subarray(start, end);
  }

  /** Discards everything after the first `length` bytes. */
  cut(length: number): void {
    this.#length = length;
    if (length === 0 && this.#bytes.length > mostKept) this.#bytes = Buffer.allocUnsafeSlow(firstBytes);
  }

  text(text: string): void {
    this.#reserve(text.length * 3);
    this.#length += this.#bytes.write(text, this.#length);
  }

  /** Redacts secrets in everything from `start` on. */
  redact(start: number, redact: (text: string) => string): void {
    if (redact === unchanged) return;
    const text = this.view(start).toString();
    const redacted = redact(text);
    if (redacted === text) return;
    this.#length = start;
    this.text(redacted);
  }

  /** Writes ASCII text only; characters above U+007F would be corrupted. */
  ascii(text: string): void {
    this.#reserve(text.length);
    if (text.length > longestLoop) {
      this.#length += this.#bytes.write(text, this.#length, "latin1");
      return;
    }
    const bytes = this.#bytes;
    let end = this.#length;
    for (let at = 0; at < text.length; at++) bytes[end++] = text.charCodeAt(at);
    this.#length = end;
  }

  bytes(source: Uint8Array): void {
    this.#reserve(source.length);
    this.#bytes.set(source, this.#length);
    this.#length += source.length;
  }

  /** Writes a few bytes. */
  short(source: Uint8Array): void {
    this.#reserve(source.length);
    const bytes = this.#bytes;
    const start = this.#length;
    for (let at = 0; at < source.length; at++) bytes[start + at] = source[at] ?? 0;
    this.#length = start + source.length;
  }

  /** Writes a non-negative whole number in digits. */
  digits(number: number): void {
    this.#reserve(mostDigits);
    this.#length = writeDigits(this.#bytes, this.#length, number);
  }

  /** Writes a JSON string. Lone surrogates, which UTF-8 cannot hold, are escaped. */
  quoted(text: string): void {
    if (text.length > longestLoop || !this.#quoteAscii(text)) this.text(JSON.stringify(text));
  }

  /**
   * Writes the text and returns true if it needs only the three usual escapes; returns false
   * otherwise.
   */
  #quoteAscii(text: string): boolean {
    this.#reserve(text.length * 2 + 2);
    const bytes = this.#bytes;
    let end = this.#length;
    bytes[end++] = quote;
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      if (unit === quote || unit === backslash || unit === lineFeed) {
        bytes[end++] = backslash;
        bytes[end++] = unit === lineFeed ? lowerN : unit;
      } else if (unit >= 32 && unit < 127) {
        bytes[end++] = unit;
      } else {
        return false;
      }
    }
    bytes[end++] = quote;
    this.#length = end;
    return true;
  }

  /** Writes the base64 form of the integers' bytes, the least significant byte first. */
  base64(integers: Uint32Array): void {
    this.#reserve(Math.ceil(integers.length / 3) * 16);
    const bytes = this.#bytes;
    let end = this.#length;
    for (let at = 0; at < integers.length; at += 3) {
      const first = integers[at] ?? 0;
      const second = integers[at + 1] ?? 0;
      const third = integers[at + 2] ?? 0;
      end = writeThree(bytes, end, ((first & 255) << 16) | (first & 0xff00) | ((first >>> 16) & 255));
      end = writeThree(bytes, end, ((first >>> 24) << 16) | ((second & 255) << 8) | ((second >>> 8) & 255));
      end = writeThree(bytes, end, (second & 0xff0000) | ((second >>> 24) << 8) | (third & 255));
      end = writeThree(bytes, end, (((third >>> 8) & 255) << 16) | ((third >>> 8) & 0xff00) | (third >>> 24));
    }
    // One or two of the last three integers may be absent: their digits are removed, and the last
    // group is padded.
    const rest = integers.length % 3;
    this.#length = end - (rest === 0 ? 0 : rest === 1 ? 10 : 5);
    if (rest > 0) this.ascii(rest === 1 ? "==" : "=");
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const grown = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#length + count));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
  }
}

/** Writes three bytes as four digits. */
function writeThree(bytes: Buffer, start: number, three: number): number {
  bytes[start] = base64Digits[three >>> 18] ?? 0;
  bytes[start + 1] = base64Digits[(three >>> 12) & 63] ?? 0;
  bytes[start + 2] = base64Digits[(three >>> 6) & 63] ?? 0;
  bytes[start + 3] = base64Digits[three & 63] ?? 0;
  return start + 4;
}

/**
 * Lines that wait for the next write, and those of the write in flight: two buffers that are
 * swapped.
 */
export class OutgoingLines {
  #waiting = new ByteWriter();
  #leaving = new ByteWriter();

  /** Adds the output of `write`, or nothing if it throws. Returns the number of added bytes. */
  add(write: (writer: ByteWriter) => void): number {
    const writer = this.#waiting;
    const start = writer.length;
    try {
      write(writer);
    } catch (error) {
      writer.cut(start);
      throw error;
    }
    return writer.length - start;
  }

  /** Takes everything added since the last call, whose bytes must no longer be in use. */
  take(): Buffer {
    [this.#waiting, this.#leaving] = [this.#leaving, this.#waiting];
    this.#waiting.cut(0);
    return this.#leaving.view();
  }
}
