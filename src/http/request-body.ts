// The bytes of a body whose prompt grows from turn to turn: a turn writes its new ids and a tail behind those that stand there
// already, and copies nothing. Keyed by identity, so a fork starts afresh. How conversations of a run begin (guidelines and
// tools, mostly) is written in digits once and copied into their bodies. Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../core/token-buffer.ts";
import { writeDigits } from "../lib/bytes.ts";

/** An id has at most ten digits, and a comma behind it. */
const mostBytesPerId = 11;
/** Fewer ids in common are no opening worth keeping. */
const leastOpening = 256;
/** Room for the next turns, where an eighth of what stands there is less. */
const leastRoom = 8192;
const comma = 44;

/**
 * A body to send. Release it once the server has answered the request: it has read it all. After anything else, a refusal too,
 * the rest may still be on its way out; a body that is not released never changes.
 */
export type RequestBody = { readonly bytes: Buffer; readonly release: () => void };

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

  /** The head, the ids of the prompt with commas between them, "]," and `fields`. Throws what `JSON.stringify` throws. */
  write(prompt: TokenBuffer, fields: object): RequestBody {
    const tail = `],${JSON.stringify(fields).slice(1)}`;
    return (this.#bodies.get(prompt) ?? this.#begin(prompt)).write(prompt, tail);
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

/** `head`, then ids with commas between them, then a tail of its own for every body. */
class GrowingBody {
  readonly #opens: boolean;
  /** Head and ids, each with a comma behind it: the first `#end` bytes, which never change. The rest is room. */
  #bytes: Buffer;
  #end: number;
  #count = 0;
  /** The body that reads `#bytes`. */
  #reader: RequestBody | null = null;
  #isClosed = false;

  /** `capacity`: how many ids the prompt has at first. */
  constructor(head: Uint8Array, capacity: number) {
    this.#opens = capacity >= leastOpening;
    this.#bytes = Buffer.from(head);
    this.#end = head.length;
  }

  /** A body that is not released never changes. */
  write(prompt: TokenBuffer, tail: string): RequestBody {
    const tailBytes = Buffer.byteLength(tail);
    this.#grow(prompt, tailBytes);
    const bytes = this.#bytes;
    // The tail takes the place of the last comma.
    const start = this.#count === 0 ? this.#end : this.#end - 1;
    bytes.write(tail, start);
    const body = { bytes: bytes.subarray(0, start + tailBytes), release: () => this.#release(body) };
    this.#reader = body;
    return body;
  }

  /** A body written since then is not affected. */
  #release(body: RequestBody): void {
    if (this.#reader !== body) return;
    this.#reader = null;
    if (this.#isClosed) releaseMemory(this.#bytes);
  }

  /** Nothing more is written. */
  close(): void {
    this.#isClosed = true;
    if (this.#reader === null) releaseMemory(this.#bytes);
  }

  /** Appends the ids that the prompt has gained since the last time, and makes room for a tail. */
  #grow(prompt: TokenBuffer, tailBytes: number): void {
    const opening = this.#count === 0 && this.#opens ? this.#open(prompt) : null;
    const known = opening?.ids.length ?? this.#count;
    const most = this.#end + (opening?.bytes.length ?? 0) + (prompt.length - known) * mostBytesPerId + tailBytes;
    if (this.#reader !== null || most > this.#bytes.length) {
      const grown = acquireMemory(most + Math.max(leastRoom, most >> 3));
      grown.set(this.#bytes.subarray(0, this.#end));
      // Bytes that may still be read are not reused.
      if (this.#reader === null) releaseMemory(this.#bytes);
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

// Memory of bodies, reused from one conversation to the next. Not ordinary buffers: V8 counts those, and marks its whole heap
// for every 64 MB that are new, which thousands of conversations need every few seconds. It does not count memory that
// could be shared with other threads. Measured in `bench/concurrency.mjs`.

/** Smaller ones are not worth keeping. */
const leastMemory = 8192;
/** Of memory that is ready and unused. */
const mostIdleBytes = 64 * 2 ** 20;

/** By size. */
const idleMemory = new Map<number, Buffer[]>();
let idleBytes = 0;

/** At least so many bytes, whatever they hold. */
function acquireMemory(bytes: number): Buffer {
  const size = sizeFor(bytes);
  const known = idleMemory.get(size)?.pop();
  if (known === undefined) return Buffer.from(new SharedArrayBuffer(size));
  idleBytes -= size;
  return known;
}

/** Of memory that `acquireMemory` gave and that is no longer read. */
function releaseMemory(memory: Buffer): void {
  if (memory.length < leastMemory || idleBytes + memory.length > mostIdleBytes) return;
  const others = idleMemory.get(memory.length);
  if (others === undefined) idleMemory.set(memory.length, [memory]);
  else others.push(memory);
  idleBytes += memory.length;
}

/** Powers of two and what lies halfway between them, so that a third at most goes unused. */
function sizeFor(bytes: number): number {
  let size = leastMemory;
  while (size < bytes) size *= 2;
  const between = (size / 4) * 3;
  return between >= bytes && between > leastMemory ? between : size;
}
