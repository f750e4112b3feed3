// Token ids as the bytes of a JSON list, kept while a prompt grows from turn to turn: a turn writes its new ids and copies
// the rest. How conversations of a run begin (guidelines and tools, mostly) is written once and shared by their bodies.
// Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../../core/token-buffer.ts";

/** An id has at most ten digits, and a comma behind it. */
const mostBytesPerId = 11;
const comma = 44;
const zero = 48;

/** Ids and their bytes, a comma behind each. Never changed. */
export type Opening = { readonly ids: Uint32Array; readonly bytes: Buffer };

export const emptyOpening: Opening = { ids: new Uint32Array(0), bytes: Buffer.alloc(0) };

/** The bytes of one prompt. */
export class GrowingBody {
  readonly #opening: Buffer;
  /** What stands behind the opening; its first `#end` bytes never change. */
  #own: Buffer;
  #end = 0;
  #count: number;

  /** `opening` must be how the prompt begins. `expected`: how many bytes of its own are likely. */
  constructor(opening: Opening, expected: number) {
    this.#opening = opening.bytes;
    this.#count = opening.ids.length;
    this.#own = Buffer.allocUnsafeSlow(expected);
  }

  /** Takes in the ids that the prompt has got since the last time, and returns how many bytes there are now. */
  grow(prompt: TokenBuffer): number {
    const ids = prompt.view(this.#count);
    const most = this.#end + ids.length * mostBytesPerId;
    if (most > this.#own.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(most, this.#own.length * 2));
      grown.set(this.#own.subarray(0, this.#end));
      this.#own = grown;
    }
    this.#end = writeIds(ids, this.#own, this.#end);
    this.#count += ids.length;
    return this.#opening.length + this.#end;
  }

  /** Writes all bytes and returns where they end: behind the comma of the last id. */
  copyTo(target: Buffer, offset: number): number {
    target.set(this.#opening, offset);
    target.set(this.#own.subarray(0, this.#end), offset + this.#opening.length);
    return offset + this.#opening.length + this.#end;
  }
}

/** How `ids` begin: what they share with `known` when that is at least `least` ids or all of it, otherwise all of them. */
export function openingOf(ids: Uint32Array, known: Opening, least: number): Opening {
  const most = Math.min(ids.length, known.ids.length);
  let shared = 0;
  while (shared < most && ids[shared] === known.ids[shared]) shared++;
  if (shared > 0 && shared === known.ids.length) return known;
  if (shared >= least) return shorten(known, shared);
  const bytes = Buffer.allocUnsafeSlow(ids.length * mostBytesPerId);
  return { ids: ids.slice(), bytes: Buffer.from(bytes.subarray(0, writeIds(ids, bytes, 0))) };
}

function shorten({ ids, bytes }: Opening, count: number): Opening {
  let end = bytes.length;
  for (let left = ids.length - count; left > 0; left--) end = bytes.lastIndexOf(comma, end - 2) + 1;
  return { ids: ids.slice(0, count), bytes: bytes.subarray(0, end) };
}

function writeIds(ids: Uint32Array, bytes: Buffer, offset: number): number {
  let end = offset;
  for (let at = 0; at < ids.length; at++) {
    let rest = ids[at] ?? 0;
    const next = end + digits(rest);
    for (let place = next - 1; place >= end; place--) {
      const tenth = Math.floor(rest / 10);
      bytes[place] = zero + (rest - tenth * 10);
      rest = tenth;
    }
    bytes[next] = comma;
    end = next + 1;
  }
  return end;
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
