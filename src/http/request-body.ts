// Request bodies whose prompt grows from turn to turn: a turn appends its new ids and a tail to the
// bytes that exist already, and copies nothing. Bodies are keyed by the identity of the prompt, so
// a fork starts over. The common beginning of a run's conversations (mostly guidelines and tools)
// is serialized once and copied into their bodies. Measured in `bench/request-body.mjs`.

import type { TokenBuffer } from "../core/token-buffer.ts";
import { writeDigits } from "../lib/bytes.ts";

/** An id has at most ten digits and a trailing comma. */
const mostBytesPerId = 11;
/** Minimum number of ids in common for an opening worth keeping. */
const leastOpening = 256;
/** Minimum free space in bytes for the next turns, used if an eighth of the current size is less. */
const leastRoom = 8192;
const comma = 44;

/**
 * A body to send. Release it once the server has answered the request, because it has then been
 * read completely. After any other end, a refusal included, the rest may still be in transmission;
 * a body that is not released never changes.
 */
export type RequestBody = { readonly bytes: Buffer; readonly release: () => void };

/** Ids and their bytes, each with a trailing comma. Immutable. */
type Opening = { readonly ids: Uint32Array; readonly bytes: Buffer };

/**
 * The opening of the last conversations. Bytes of ids are the same for every server, so all bodies
 * copy it.
 */
let lastOpening: Opening = { ids: new Uint32Array(0), bytes: Buffer.alloc(0) };

/** The growing bodies of all conversations; each lives until its prompt is collected or closed. */
export class GrowingBodies {
  readonly #head: Uint8Array;
  readonly #bodies = new WeakMap<TokenBuffer, GrowingBody>();

  constructor(head: Uint8Array) {
    this.#head = head;
  }

  /**
   * The head, the ids of the prompt with commas between them, "]," and `fields`. Throws the errors
   * of `JSON.stringify`.
   */
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

/** `head`, then ids with commas between them, then a separate tail for every body. */
class GrowingBody {
  readonly #opens: boolean;
  /**
   * Head and ids, each with a trailing comma, in the first `#end` bytes, which never change. The
   * rest is free.
   */
  #bytes: Buffer;
  #end: number;
  #count = 0;
  /** The body that currently uses `#bytes`. */
  #reader: RequestBody | null = null;
  #isClosed = false;

  /** `capacity` is the initial number of ids of the prompt. */
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
    // The tail overwrites the last comma.
    const start = this.#count === 0 ? this.#end : this.#end - 1;
    bytes.write(tail, start);
    const body = { bytes: bytes.subarray(0, start + tailBytes), release: () => this.#release(body) };
    this.#reader = body;
    return body;
  }

  /** A body written later is not affected. */
  #release(body: RequestBody): void {
    if (this.#reader !== body) return;
    this.#reader = null;
    if (this.#isClosed) releaseMemory(this.#bytes);
  }

  /** Prevents further writes. */
  close(): void {
    this.#isClosed = true;
    if (this.#reader === null) releaseMemory(this.#bytes);
  }

  /** Appends the ids added to the prompt since the last time, and reserves space for a tail. */
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
      // Restores the comma where the tail of the last body began.
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

/**
 * The opening of `ids`: the part shared with `known` if that has at least {@link leastOpening} ids
 * or is all of it, otherwise all of `ids`.
 */
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

// Memory of bodies, reused from one conversation to the next. It does not use ordinary buffers: V8
// counts those, and marks its whole heap for every 64 MB of new ones, which thousands of
// conversations need every few seconds. V8 does not count shareable memory. Measured in
// `bench/concurrency.mjs`.

/** Minimum size in bytes that is kept for reuse. */
const leastMemory = 8192;
/** Maximum total size of unused memory that is kept. */
const mostIdleBytes = 64 * 2 ** 20;

/** Unused memory by size. */
const idleMemory = new Map<number, Buffer[]>();
let idleBytes = 0;

/** Memory of at least this many bytes, with arbitrary content. */
function acquireMemory(bytes: number): Buffer {
  const size = sizeFor(bytes);
  const known = idleMemory.get(size)?.pop();
  if (known === undefined) return Buffer.from(new SharedArrayBuffer(size));
  idleBytes -= size;
  return known;
}

/** Returns memory from `acquireMemory` that is no longer read. */
function releaseMemory(memory: Buffer): void {
  if (memory.length < leastMemory || idleBytes + memory.length > mostIdleBytes) return;
  const others = idleMemory.get(memory.length);
  if (others === undefined) idleMemory.set(memory.length, [memory]);
  else others.push(memory);
  idleBytes += memory.length;
}

/**
 * Rounds up to powers of two and the values halfway between them, so that at most a third is
 * unused.
 */
function sizeFor(bytes: number): number {
  let size = leastMemory;
  while (size < bytes) size *= 2;
  const between = (size / 4) * 3;
  return between >= bytes && between > leastMemory ? between : size;
}
