// The bytes of a body whose prompt grows from turn to turn: a turn writes its new ids and copies the rest. Keyed by identity,
// so a fork begins anew. How conversations of a run begin (guidelines and tools, mostly) is written once and shared by their
// bodies, and bodies that were read are written again: memory outside the heap is what makes the garbage collector run.
// Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../core/token-buffer.ts";

/** An id has at most ten digits, and a comma behind it. */
const mostBytesPerId = 11;
/** Fewer ids in common are no opening worth sharing. */
const leastOpening = 256;
/** What most conversations need beside the opening. */
const likelyBytes = 16_384;
/** Bodies that nobody reads are kept for the next calls, but not as many as a burst of them. */
const mostFree = 64;
const comma = 44;
const zero = 48;

/** A body to send. Give it back when nobody reads it any more, in every case. */
export type LentBody = { readonly bytes: Buffer; readonly giveBack: () => void };

/** Ids and their bytes, a comma behind each. Never changed. */
type Opening = { readonly ids: Uint32Array; readonly bytes: Buffer };

const noOpening: Opening = { ids: new Uint32Array(0), bytes: Buffer.alloc(0) };
/** How the last conversations began. Bytes of ids are the same for every server, so all bodies share it. */
let lastOpening = noOpening;
const free: Buffer[] = [];

/** `head`, then ids with commas between them, then a tail that is written anew for every body. */
export class GrowingBody {
  readonly #head: Uint8Array;
  readonly #sharesOpening: boolean;
  #opening: Opening | null = null;
  /** What stands behind the opening; its first `#end` bytes never change. */
  #own = Buffer.alloc(0);
  #end = 0;
  #count = 0;

  /** `capacity`: how many ids the prompt has at first. */
  constructor(head: Uint8Array, capacity: number) {
    this.#head = head;
    this.#sharesOpening = capacity >= leastOpening;
  }

  /** The bytes of a body, and the function to call when nobody reads them any more. Bodies that are lent never change. */
  lend(prompt: TokenBuffer, tail: string): LentBody {
    const opening = this.#grow(prompt).bytes;
    const idsStart = this.#head.length + opening.length;
    const idsEnd = idsStart + this.#end;
    const buffer = takeBuffer(idsEnd + Buffer.byteLength(tail));
    buffer.set(this.#head);
    buffer.set(opening, this.#head.length);
    buffer.set(this.#own.subarray(0, this.#end), idsStart);
    // The tail takes the place of the last comma.
    const start = prompt.length === 0 ? idsEnd : idsEnd - 1;
    const length = start + buffer.write(tail, start);
    let isLent = true;
    const giveBack = (): void => {
      if (isLent && free.length < mostFree) free.push(buffer);
      isLent = false;
    };
    return { bytes: buffer.subarray(0, length), giveBack };
  }

  /** Takes in the ids that the prompt has got since the last time. */
  #grow(prompt: TokenBuffer): Opening {
    const isFirst = this.#opening === null;
    if (isFirst && this.#sharesOpening) lastOpening = openingOf(prompt.view(), lastOpening);
    const opening = (this.#opening ??= this.#sharesOpening ? lastOpening : noOpening);
    if (isFirst) this.#count = opening.ids.length;
    const ids = prompt.view(this.#count);
    const most = this.#end + ids.length * mostBytesPerId;
    if (most > this.#own.length) {
      const grown = Buffer.allocUnsafeSlow(Math.max(most, this.#own.length * 2, likelyBytes));
      grown.set(this.#own.subarray(0, this.#end));
      this.#own = grown;
    }
    this.#end = writeIds(ids, this.#own, this.#end);
    this.#count += ids.length;
    return opening;
  }
}

function takeBuffer(length: number): Buffer {
  const known = free.pop();
  if (known !== undefined && known.length >= length) return known;
  return Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(length)));
}

/** How `ids` begin: what they share with `known` when that is at least {@link leastOpening} ids or all of it, otherwise all of them. */
function openingOf(ids: Uint32Array, known: Opening): Opening {
  const most = Math.min(ids.length, known.ids.length);
  let shared = 0;
  while (shared < most && ids[shared] === known.ids[shared]) shared++;
  if (shared > 0 && shared === known.ids.length) return known;
  if (shared >= leastOpening) return shorten(known, shared);
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
