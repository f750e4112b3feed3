// The bytes of a body whose prompt grows from turn to turn, kept beside the token buffer it was made of: a turn pays for
// its new tokens, not for its context. Keyed by identity, so a fork begins anew. Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../core/token-buffer.ts";

/** An id has at most ten digits, and a comma before it. */
const mostBytesPerId = 11;
const comma = 44;
const zero = 48;

/** A body to send. Give it back when nobody reads it any more, in every case. */
export type LentBody = { readonly bytes: Buffer; readonly giveBack: () => void };

/**
 * `head`, then ids with commas between them, then a tail that is written anew for every body. The bytes of head and ids
 * never change; those of the tail belong to one body at a time.
 */
export class GrowingBody {
  readonly #headLength: number;
  #bytes: Buffer;
  #idsEnd: number;
  #count = 0;
  #isLent = false;

  constructor(head: Uint8Array, capacity: number) {
    // Most vocabularies have five or six digits; growing covers the rest.
    this.#bytes = Buffer.allocUnsafeSlow(head.length + capacity * 7 + 1024);
    this.#bytes.set(head);
    this.#headLength = head.length;
    this.#idsEnd = head.length;
  }

  /**
   * The bytes of a body, and the function to call when nobody reads them any more. While one is lent, others are copies:
   * calls that share a prompt run at the same time.
   */
  lend(prompt: TokenBuffer, tail: string): LentBody {
    this.#appendIds(prompt);
    const length = this.#idsEnd + Buffer.byteLength(tail);
    if (this.#isLent) {
      const copy = Buffer.allocUnsafe(length);
      copy.set(this.#bytes.subarray(0, this.#idsEnd));
      copy.write(tail, this.#idsEnd);
      return { bytes: copy, giveBack: () => undefined };
    }
    this.#reserve(length);
    this.#bytes.write(tail, this.#idsEnd);
    this.#isLent = true;
    return {
      bytes: this.#bytes.subarray(0, length),
      giveBack: () => {
        this.#isLent = false;
      },
    };
  }

  #appendIds(prompt: TokenBuffer): void {
    const ids = prompt.view(this.#count);
    if (ids.length === 0) return;
    const wanted = this.#idsEnd + ids.length * mostBytesPerId;
    // A lent tail is being sent from behind the ids: what comes now goes into other bytes.
    if (this.#isLent) this.#move(wanted);
    else this.#reserve(wanted);
    const bytes = this.#bytes;
    let end = this.#idsEnd;
    for (const id of ids) {
      if (end > this.#headLength) bytes[end++] = comma;
      const width = digits(id);
      let rest = id;
      for (let place = end + width - 1; place >= end; place--) {
        const tenth = Math.floor(rest / 10);
        bytes[place] = zero + (rest - tenth * 10);
        rest = tenth;
      }
      end += width;
    }
    this.#idsEnd = end;
    this.#count = prompt.length;
  }

  #reserve(length: number): void {
    if (length > this.#bytes.length) this.#move(length);
  }

  /** Leaves the old bytes to whoever still reads them. */
  #move(length: number): void {
    const moved = Buffer.allocUnsafeSlow(Math.max(length, Math.ceil(this.#bytes.length * 1.25)));
    moved.set(this.#bytes.subarray(0, this.#idsEnd));
    this.#bytes = moved;
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
