// Decompresses zstd with Node's decoder, where available (22.15). Node's decoder stops after the
// first frame and accepts a truncated frame as complete, so the frames are detected here (RFC 8878,
// section 3), and each gets its own decoder.

import type { Transform } from "node:stream";
import * as zlib from "node:zlib";
import { transformed } from "./transformed.ts";

const frameMagic = 0xfd2fb528;
const skippableMagic = 0x184d2a5;
const dictionarySizes = [0, 1, 2, 4];
const contentSizes = [0, 2, 4, 8];
/** Maximum number of frames, because each costs a decoder. */
const mostFrames = 100;
/** ZSTD_d_windowLogMax: 8 MiB, the largest window that a content coding may have (RFC 9659). */
const window = { params: { 100: 23 } };

/** A cast, because Node's types do not have it yet. */
const { createZstdDecompress } = zlib as { readonly createZstdDecompress?: (options: typeof window) => Transform };

/** True if this Node version supports zstd. */
export const hasZstd = createZstdDecompress !== undefined;

/**
 * The decompressed pieces of `chunks`; call it only if {@link hasZstd}. Rejects like `chunks`, with
 * an error of zlib, and with a plain error for bytes that are not complete frames.
 */
export async function* unpackZstd(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const frame of zstdFrames(chunks)) yield* transformed(frame, createZstdDecompress!(window));
}

/**
 * All frames except skippable ones, in order; each must be read to its end before the next one is
 * requested.
 */
export async function* zstdFrames(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<AsyncGenerator<Uint8Array, void>> {
  const source = new ByteReader(chunks);
  for (let frames = 0; await source.hasMore();) {
    const magic = await source.take(4);
    const number = magic.readUInt32LE();
    if (number >>> 4 === skippableMagic) {
      const size = (await source.take(4)).readUInt32LE();
      for await (const _ of source.pass(size)) void _;
    } else {
      if (number !== frameMagic) throw new Error("It is not a zstd frame.");
      if (++frames > mostFrames) throw new Error("It has too many frames.");
      yield frameOf(source, magic);
    }
  }
}

async function* frameOf(source: ByteReader, magic: Buffer): AsyncGenerator<Uint8Array, void> {
  yield magic;
  const head = await source.take(1);
  yield head;
  const descriptor = head[0]!;
  const isSingle = (descriptor & 0x20) !== 0;
  const contentSize = descriptor >> 6 === 0 && isSingle ? 1 : contentSizes[descriptor >> 6]!;
  yield await source.take((isSingle ? 0 : 1) + dictionarySizes[descriptor & 3]! + contentSize);
  for (let isLast = false; !isLast;) {
    const block = await source.take(3);
    yield block;
    const header = block.readUIntLE(0, 3);
    isLast = (header & 1) !== 0;
    // A block that repeats one byte contains only that byte.
    yield* source.pass(((header >> 1) & 3) === 1 ? 1 : header >> 3);
  }
  if ((descriptor & 4) !== 0) yield await source.take(4);
}

/** Reads bytes by count from a source of pieces. */
class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array(0);

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  async hasMore(): Promise<boolean> {
    while (this.#rest.length === 0) {
      const next = await this.#chunks.next();
      if (next.done === true) return false;
      this.#rest = next.value;
    }
    return true;
  }

  /** The next bytes in one buffer. */
  async take(count: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of this.pass(count)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** The next bytes as they arrive. */
  async *pass(count: number): AsyncGenerator<Uint8Array, void> {
    for (let left = count; left > 0;) {
      if (!(await this.hasMore())) throw new Error("The zstd frame was cut short.");
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }
}
