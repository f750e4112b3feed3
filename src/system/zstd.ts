// Bytes in zstd, unpacked by Node where it can (22.15). Node's decoder stops after the first frame and takes a frame that was cut short
// for one that ended, so the frames are found here (RFC 8878, section 3), and each has a decoder of its own.

import type { Transform } from "node:stream";
import * as zlib from "node:zlib";
import { transformed } from "./transformed.ts";

const frameMagic = 0xfd2fb528;
const skippableMagic = 0x184d2a5;
const dictionarySizes = [0, 1, 2, 4];
const contentSizes = [0, 2, 4, 8];
/** Each costs a decoder. */
const mostFrames = 100;
/** ZSTD_d_windowLogMax, and the largest window that a content coding may have: 8 MiB (RFC 9659). */
const window = { params: { 100: 23 } };

/** Node's types do not know it yet. */
const { createZstdDecompress } = zlib as { readonly createZstdDecompress?: (options: typeof window) => Transform };

/** Whether this Node unpacks zstd. */
export const hasZstd = createZstdDecompress !== undefined;

/**
 * What `chunks` unpack to, piece by piece; only where {@link hasZstd}. Rejects as `chunks` does, with an error of zlib, and with a plain
 * one for bytes that are no whole frames.
 */
export async function* unpackZstd(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const frame of zstdFrames(chunks)) yield* transformed(frame, createZstdDecompress!(window));
}

/** All frames but those that are to be skipped, in order; each is read to its end before the next one is asked for. */
export async function* zstdFrames(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<AsyncGenerator<Uint8Array, void>> {
  const source = new ByteReader(chunks);
  for (let frames = 0; await source.hasMore();) {
    const magic = await source.take(4);
    const number = magic.readUInt32LE();
    if (number >>> 4 === skippableMagic) {
      const size = (await source.take(4)).readUInt32LE();
      for await (const _ of source.pass(size)) void _;
    } else {
      if (number !== frameMagic) throw new Error("It is no zstd frame.");
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
    // Of a block that repeats one byte, that byte.
    yield* source.pass(((header >> 1) & 3) === 1 ? 1 : header >> 3);
  }
  if ((descriptor & 4) !== 0) yield await source.take(4);
}

/** Bytes that come in pieces, by count. */
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

  /** The next few bytes. */
  async take(count: number): Promise<Buffer> {
    const parts: Uint8Array[] = [];
    for await (const part of this.pass(count)) parts.push(part);
    return Buffer.concat(parts);
  }

  /** The next bytes as they come. */
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
