// Bodies under a content-encoding, unpacked as they come, for clients and servers alike. Every bound of a body counts unpacked bytes: 900 kB
// on the wire can be a gigabyte, so a decoder stops at the first byte too many. No client of this package asks for compression, but servers
// and proxies compress unasked.

import type { Transform } from "node:stream";
import * as zlib from "node:zlib";
import { transformed } from "../system/transformed.ts";
import { hasZstd, unpackZstd } from "../system/zstd.ts";

/** Each is a whole decompression; whoever compresses does it once. */
const mostLayers = 3;

/** The encodings that are decoded, as the header `accept-encoding` of a refusal lists them. */
export const acceptedEncodings = `gzip, deflate, br${hasZstd ? ", zstd" : ""}`;

/** A body in an encoding that is not known here. The message follows on what the body is called. */
export class EncodingError extends Error {}

/** A body that is not what its encoding says. The message follows on what the body is called. */
export class UnpackError extends Error {}

/** Thrown by a decoder that has given more than the bound. */
export class UnpackedTooLargeError extends Error {}

/** From the header: encodings in the order in which they were applied; empty when a body is sent as it is. */
export function encodingsOf(header: string | readonly string[] | null | undefined): readonly string[] {
  return String(header ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim().replace(/^x-gzip$/, "gzip"))
    .filter((name) => name !== "" && name !== "identity");
}

/**
 * The unpacked pieces of a body, one at a time, so that nobody holds more than has been read. `encodings`: as {@link encodingsOf} gives
 * them. Rejects as `chunks` does, with an {@link EncodingError} before anything is read, with an {@link UnpackError} for what is no such
 * body, and with an {@link UnpackedTooLargeError} beyond `maxBytes`.
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
  // The last one was applied last.
  for (const encoding of encodings.toReversed()) layer = decode(layer, encoding, maxBytes);
  yield* layer;
}

async function* decode(
  chunks: AsyncIterable<Uint8Array>,
  encoding: string,
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  const [first, rest] = await withFirst(chunks);
  // A body of no bytes is an empty one, whatever it is said to be.
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
      // Every layer is bounded: an inner one may be the large one.
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
  // The standard means zlib's format by "deflate", and some send the bare one.
  return ((first[0] ?? 0) & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw();
}

/** The first piece with bytes, and all of them. */
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
