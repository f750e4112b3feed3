// Bytes of tokens to text, one token at a time. Tokens end in the middle of characters, so bytes
// that may still become one are held back. Invalid bytes become U+FFFD by the rule of the Encoding
// Standard, which is also that of Rust's lossy decoding: one for each maximal part of a character.

/** Decodes whole byte sequences; U+FEFF is a character like any other. */
export function decodeUtf8(bytes: Uint8Array): string {
  return decoder.decode(bytes);
}

const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/**
 * Number of final bytes that could be the beginning of a character that later bytes complete: 0 to
 * 3.
 */
export function incompleteTail(bytes: Uint8Array, length: number): number {
  for (let tail = 1; tail <= 3 && tail <= length; tail++) {
    const lead = bytes[length - tail] ?? 0;
    if (isContinuation(lead)) continue;
    const expected = lead >= 0xf0 && lead <= 0xf4 ? 4 : lead >= 0xe0 && lead <= 0xef ? 3 : lead >= 0xc2 && lead <= 0xdf ? 2 : 1; // prettier-ignore
    if (tail >= expected) return 0;
    return tail === 1 || isSecond(lead, bytes[length - tail + 1] ?? 0) ? tail : 0;
  }
  return 0;
}

function isContinuation(byte: number): boolean {
  return (byte & 0xc0) === 0x80;
}

/**
 * True if the second byte of a character may follow its first: no overlong forms, no surrogates,
 * nothing past U+10FFFF.
 */
function isSecond(lead: number, byte: number): boolean {
  switch (lead) {
    case 0xe0:
      return byte >= 0xa0;
    case 0xed:
      return byte < 0xa0;
    case 0xf0:
      return byte >= 0x90;
    case 0xf4:
      return byte < 0x90;
    default:
      return true;
  }
}

/** Joins byte sequences into text without ever splitting a character. */
export class Utf8Joiner {
  #held = new Uint8Array(64);
  #length = 0;

  /** True if no bytes are held back, so that complete text can be returned as it is. */
  get isClean(): boolean {
    return this.#length === 0;
  }

  /**
   * Takes bytes from `write`, which gets a buffer with room for `count` of them and the offset of
   * the first.
   */
  push(count: number, write: (target: Uint8Array, offset: number) => void): string {
    const length = this.#length + count;
    if (length > this.#held.length) {
      const grown = new Uint8Array(length * 2);
      grown.set(this.#held.subarray(0, this.#length));
      this.#held = grown;
    }
    write(this.#held, this.#length);
    const tail = incompleteTail(this.#held, length);
    const text = length === tail ? "" : decodeUtf8(this.#held.subarray(0, length - tail));
    this.#held.copyWithin(0, length - tail, length);
    this.#length = tail;
    return text;
  }

  /** Decodes the bytes that are held back, as no further bytes will complete them. */
  finish(): string {
    const text = this.#length === 0 ? "" : decodeUtf8(this.#held.subarray(0, this.#length));
    this.#length = 0;
    return text;
  }
}
