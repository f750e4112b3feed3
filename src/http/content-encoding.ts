// Decompression of HTTP bodies piece by piece, for clients and servers. Every limit on a body
// counts decompressed bytes: 900 kB on the wire can be a gigabyte, so a decoder stops at the first
// excess byte. No client of this package requests compression, but some servers and proxies
// compress anyway.

import type { Transform } from "node:stream";
import * as zlib from "node:zlib";
import { transformed } from "../system/transformed.ts";
import { hasZstd, unpackZstd } from "../system/zstd.ts";

/** Each layer is a whole decompression; real senders compress once. */
const mostLayers = 3;

/** The supported encodings, as listed in the `accept-encoding` header of a refusal. */
export const acceptedEncodings = `gzip, deflate, br${hasZstd ? ", zstd" : ""}`;

/** A body has an unknown encoding. The message is appended to the name of the body. */
export class EncodingError extends Error {}

/** A body is not valid in its encoding. The message is appended to the name of the body. */
export class UnpackError extends Error {}

/** Thrown by a decoder whose output exceeds the limit. */
export class UnpackedTooLargeError extends Error {}

/**
 * Parses the header: encodings in the order in which they were applied; empty if the body is not
 * encoded.
 */
export function encodingsOf(header: string | readonly string[] | null | undefined): readonly string[] {
  return String(header ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim().replace(/^x-gzip$/, "gzip"))
    .filter((name) => name !== "" && name !== "identity");
}

/**
 * The decompressed pieces of a body, one at a time, so that only the pieces being read are held in
 * memory. `encodings` comes from {@link encodingsOf}. Rejects like `chunks`, with an {@link
 * EncodingError} before anything is read, with an {@link UnpackError} if the body is not valid in
 * its encodings, and with an {@link UnpackedTooLargeError} beyond `maxBytes`.
 */
export async function* unpack(
  chunks: AsyncIterable<Uint8Array>,
  encodings: readonly string[],
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  const unknown = encodings.find((name) => !acceptedEncodings.split(", ").includes(name));
  if (unknown !== undefined) {
    const older = unknown === "zstd" ? ", which Node decodes from 22.15 on" : "";
    throw new EncodingError(`has the content-encoding ${JSON.stringify(unknown.slice(0, 60))}${older}`);
  }
  if (encodings.length > mostLayers) throw new EncodingError(`is encoded ${encodings.length} times`);
  let layer = chunks;
  // The last encoding was applied last, so it is decoded first.
  for (const encoding of encodings.toReversed()) layer = decode(layer, encoding, maxBytes);
  yield* layer;
}

async function* decode(
  chunks: AsyncIterable<Uint8Array>,
  encoding: string,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  const [first, rest] = await withFirst(chunks);
  // A body of zero bytes is empty in any encoding.
  if (first === null) return;
  let sourceFault: unknown = null;
  const source = (async function* () {
    try {
      yield* rest;
    } catch (error) {
      sourceFault = error;
      throw error;
    }
  })();
  let size = 0;
  try {
    for await (const piece of encoding === "zstd"
      ? unpackZstd(source)
      : transformed(source, decoder(encoding, first))) {
      size += piece.length;
      // Every layer is bounded, because an inner one may be the large one.
      if (size > maxBytes) throw new UnpackedTooLargeError();
      yield piece;
    }
  } catch (error) {
    if (sourceFault !== null) throw sourceFault;
    if (error instanceof UnpackedTooLargeError) throw error;
    throw new UnpackError(`is not ${encoding}, or not all of it`, { cause: error });
  }
}

function decoder(encoding: string, first: Uint8Array): Transform {
  if (encoding === "gzip") return zlib.createGunzip();
  if (encoding === "br") return zlib.createBrotliDecompress();
  // "deflate" means zlib's format by the standard, but some servers send the raw format.
  return ((first[0] ?? 0) & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw();
}

/** The first piece with bytes, and an iterable of all pieces. */
async function withFirst(
  chunks: AsyncIterable<Uint8Array>,
): Promise<readonly [Uint8Array | null, AsyncIterable<Uint8Array>]> {
  const pieces = chunks[Symbol.asyncIterator]();
  let first: Uint8Array | null = null;
  while (first === null) {
    const next = await pieces.next();
    if (next.done === true) return [null, chunks];
    if (next.value.length > 0) first = next.value;
  }
  const found = first;
  return [
    first,
    (async function* () {
      try {
        yield found;
        yield* { [Symbol.asyncIterator]: () => pieces };
      } finally {
        await pieces.return?.();
      }
    })(),
  ];
}
