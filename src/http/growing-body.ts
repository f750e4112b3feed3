// The bytes of a body whose prompt grows from turn to turn: a turn writes its new ids and a tail behind those that stand there
// already, and copies nothing. Keyed by identity, so a fork begins anew. How conversations of a run begin (guidelines and
// tools, mostly) is written in digits once and copied into their bodies. Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../core/token-buffer.ts";
import { writeDigits } from "../lib/bytes.ts";
import { giveMemoryBack, takeMemory } from "./body-memory.ts";

/** An id has at most ten digits, and a comma behind it. */
const mostBytesPerId = 11;
/** Fewer ids in common are no opening worth keeping. */
const leastOpening = 256;
/** Room for the next turns, where an eighth of what stands there is less. */
const leastRoom = 8192;
const comma = 44;

/**
 * A body to send. Give it back once the server has answered what was asked: it has read it all. After anything else, a refusal
 * too, the rest may still be on its way out; a body that is not given back never changes.
 */
export type LentBody = { readonly bytes: Buffer; readonly giveBack: () => void };

/** Ids and their bytes, a comma behind each. Never changed. */
type Opening = { readonly ids: Uint32Array; readonly bytes: Buffer };

/** How the last conversations began. Bytes of ids are the same for every server, so all bodies copy it. */
let lastOpening: Opening = { ids: new Uint32Array(0), bytes: Buffer.alloc(0) };

/** The growing bodies of all conversations, each for as long as its prompt lives or until it is closed. */
export class GrowingBodies {
  readonly #head: Uint8Array;
  readonly #bodies = new WeakMap<TokenBuffer, GrowingBody>();

  constructor(head: Uint8Array) {
    this.#head = head;
  }

  /** See {@link GrowingBody.lend}. */
  lend(prompt: TokenBuffer, tail: string): LentBody {
    return (this.#bodies.get(prompt) ?? this.#begin(prompt)).lend(prompt, tail);
  }

  #begin(prompt: TokenBuffer): GrowingBody {
    const body = new GrowingBody(this.#head, prompt.length);
    this.#bodies.set(prompt, body);
    prompt.whenClosed(() => {
      this.#bodies.delete(prompt);
      body.close();
    });
    return body;
  }
}

/** `head`, then ids with commas between them, then a tail that is written anew for every body. */
class GrowingBody {
  readonly #opens: boolean;
  /** Head and ids, each with a comma behind it: the first `#end` bytes, which never change. The rest is room. */
  #bytes: Buffer;
  #end: number;
  #count = 0;
  /** Who reads `#bytes`. */
  #lent: LentBody | null = null;
  #isClosed = false;

  /** `capacity`: how many ids the prompt has at first. */
  constructor(head: Uint8Array, capacity: number) {
    this.#opens = capacity >= leastOpening;
    this.#bytes = Buffer.from(head);
    this.#end = head.length;
  }

  /** Bodies that are lent never change. */
  lend(prompt: TokenBuffer, tail: string): LentBody {
    const tailBytes = Buffer.byteLength(tail);
    this.#grow(prompt, tailBytes);
    const bytes = this.#bytes;
    // The tail takes the place of the last comma.
    const start = this.#count === 0 ? this.#end : this.#end - 1;
    bytes.write(tail, start);
    const lent = { bytes: bytes.subarray(0, start + tailBytes), giveBack: () => this.#takeBack(lent) };
    this.#lent = lent;
    return lent;
  }

  /** Whoever lent since then keeps what it has. */
  #takeBack(body: LentBody): void {
    if (this.#lent !== body) return;
    this.#lent = null;
    if (this.#isClosed) giveMemoryBack(this.#bytes);
  }

  /** Nobody will be lent anything any more. */
  close(): void {
    this.#isClosed = true;
    if (this.#lent === null) giveMemoryBack(this.#bytes);
  }

  /** Takes in the ids that the prompt has got since the last time, and makes room for a tail. */
  #grow(prompt: TokenBuffer, tailBytes: number): void {
    const opening = this.#count === 0 && this.#opens ? this.#open(prompt) : null;
    const known = opening?.ids.length ?? this.#count;
    const most = this.#end + (opening?.bytes.length ?? 0) + (prompt.length - known) * mostBytesPerId + tailBytes;
    if (this.#lent !== null || most > this.#bytes.length) {
      const grown = takeMemory(most + Math.max(leastRoom, most >> 3));
      grown.set(this.#bytes.subarray(0, this.#end));
      // Bytes that somebody may still read are not handed on.
      if (this.#lent === null) giveMemoryBack(this.#bytes);
      this.#bytes = grown;
    }
    if (opening !== null) {
      this.#bytes.set(opening.bytes, this.#end);
      this.#end += opening.bytes.length;
    } else if (this.#count > 0) {
      // Where the tail of the last body began.
      this.#bytes[this.#end - 1] = comma;
    }
    for (const ids of prompt.parts(known)) this.#end = writeIds(ids, this.#bytes, this.#end);
    this.#count = prompt.length;
  }

  #open(prompt: TokenBuffer): Opening {
    lastOpening = openingOf(prompt.view(), lastOpening);
    return lastOpening;
  }
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
    end = writeDigits(bytes, end, ids[at] ?? 0);
    bytes[end++] = comma;
  }
  return end;
}
