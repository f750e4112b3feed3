// The decimal text of token ids, kept beside the token buffer it was made of and grown as that grows: a turn pays for its
// new tokens, not for its context. Keyed by identity, so a fork begins anew. Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../../core/token-buffer.ts";

/** An id has at most ten digits, and a comma before it. */
const mostBytesPerId = 11;
const comma = 44;
const zero = 48;

/** Append-only bytes `,1,2,3`: what was written never changes, so a view of it stays true while more is appended. */
export class SerializedIds {
  #bytes: Uint8Array;
  #byteLength = 0;
  #count = 0;

  constructor(capacity: number) {
    // Most vocabularies have five or six digits; growing covers the rest.
    this.#bytes = new Uint8Array(Math.max(64, capacity * 6));
  }

  /** The ids of `buffer` without brackets, each with a comma before it. */
  sync(buffer: TokenBuffer): Uint8Array {
    const ids = buffer.view(this.#count);
    this.#reserve(ids.length * mostBytesPerId);
    const bytes = this.#bytes;
    let end = this.#byteLength;
    for (const id of ids) {
      bytes[end++] = comma;
      const width = digits(id);
      let rest = id;
      for (let place = end + width - 1; place >= end; place--) {
        const tenth = Math.floor(rest / 10);
        bytes[place] = zero + (rest - tenth * 10);
        rest = tenth;
      }
      end += width;
    }
    this.#byteLength = end;
    this.#count = buffer.length;
    return bytes.subarray(0, end);
  }

  #reserve(more: number): void {
    const wanted = this.#byteLength + more;
    if (wanted <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(wanted, Math.ceil(this.#bytes.length * 1.5)));
    grown.set(this.#bytes.subarray(0, this.#byteLength));
    this.#bytes = grown;
  }
}

function digits(id: number): number {
  if (id < 10) return 1;
  if (id < 100) return 2;
  if (id < 1000) return 3;
  if (id < 10_000) return 4;
  if (id < 100_000) return 5;
  if (id < 1_000_000) return 6;
  return String(id).length;
}
