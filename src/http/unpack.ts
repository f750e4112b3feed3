// Bodies that a server has compressed, unpacked as they come. Every bound of a body counts unpacked bytes: 900 kB on the wire can be a
// gigabyte. No client of this package asks for compression, but servers and proxies compress unasked.

import { Readable, pipeline, type Transform } from "node:stream";
import * as zlib from "node:zlib";
import { headerValue, type HttpHeaders } from "./http-client.ts";

/** More layers are no body that anyone wants to be read. */
const mostLayers = 4;
/** The largest window that decoders of zstd must support is 8 MiB; ours takes more, and never what a header merely claims. */
const mostWindowBytes = 128 * 1024 * 1024;

/** A body that cannot be unpacked. The message completes "the answer ...". */
export class UnpackError extends Error {}

/** Thrown by a decoder that has given more than the bound. */
export class UnpackedTooLargeError extends Error {}

/** Encodings of a body in the order in which they were applied; empty when it is sent as it is. */
export function encodingsOf(headers: HttpHeaders): readonly string[] {
  return (headerValue(headers, "content-encoding") ?? "")
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "identity");
}

/**
 * The unpacked pieces of a body, one at a time, so that nobody holds more than has been read. Rejects as `chunks` does, with an
 * {@link UnpackError} for what is no such body, and with an {@link UnpackedTooLargeError} beyond `maxBytes`.
 */
export async function* unpack(
  chunks: AsyncIterable<Uint8Array>,
  encodings: readonly string[],
  maxBytes: number,
): AsyncGenerator<Uint8Array> {
  if (encodings.length > mostLayers) throw new UnpackError(`is compressed ${encodings.length} times`);
  let layer = chunks;
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
  const isNative = encoding !== "zstd" || "createZstdDecompress" in zlib;
  let size = 0;
  for await (const piece of isNative
    ? decodeNative(rest, decoderFor(encoding, first), encoding)
    : decodeZstd(rest, maxBytes)) {
    size += piece.length;
    // Every layer is bounded: an inner one may be the large one.
    if (size > maxBytes) throw new UnpackedTooLargeError();
    yield piece;
  }
}

/** Throws an {@link UnpackError} for an encoding that is not known. */
function decoderFor(encoding: string, first: Uint8Array): Transform {
  switch (encoding) {
    case "gzip":
    case "x-gzip":
      return zlib.createGunzip();
    case "deflate":
      // The standard means zlib's format, some servers send the bare one.
      return ((first[0] ?? 0) & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw();
    case "br":
      return zlib.createBrotliDecompress();
    case "zstd":
      return (zlib as unknown as { readonly createZstdDecompress: () => Transform }).createZstdDecompress();
    default:
      throw new UnpackError(`has the encoding "${encoding.slice(0, 40)}", expected gzip, deflate, br or zstd`);
  }
}

async function* decodeNative(
  chunks: AsyncIterable<Uint8Array>,
  decoder: Transform,
  encoding: string,
): AsyncGenerator<Uint8Array> {
  let sourceFault: unknown = null;
  const source = Readable.from(
    (async function* () {
      try {
        yield* chunks;
      } catch (error) {
        sourceFault = error;
        throw error;
      }
    })(),
    { objectMode: false },
  );
  // Whatever ends it, the reading below says so.
  pipeline(source, decoder, () => undefined);
  try {
    yield* decoder as AsyncIterable<Uint8Array>;
  } catch (error) {
    if (sourceFault !== null) throw sourceFault;
    throw new UnpackError(`is not ${encoding}, or not all of it (${codeOf(error)})`);
  }
}

/** Node before 22.15 has no zstd. */
async function* decodeZstd(chunks: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  const { Decompress } = await import("fzstd");
  const pieces: Uint8Array[] = [];
  let size = 0;
  let isChecked = false;
  let head: Uint8Array = new Uint8Array(0);
  const decoder = new Decompress((piece) => {
    size += piece.length;
    // It gives all that a chunk unpacks to before it returns.
    if (size > maxBytes) throw new UnpackedTooLargeError();
    pieces.push(piece);
  });
  const push = (chunk: Uint8Array, isLast: boolean): void => {
    try {
      decoder.push(chunk, isLast);
    } catch (error) {
      if (error instanceof UnpackedTooLargeError) throw error;
      throw new UnpackError(`is not zstd, or not all of it (${codeOf(error)})`);
    }
  };
  for await (const chunk of chunks) {
    let next = chunk;
    if (!isChecked) {
      next = Buffer.concat([head, chunk]);
      head = next;
      if (next.length < 18) continue;
      checkWindow(next, maxBytes);
      isChecked = true;
    }
    push(next, false);
    yield* pieces.splice(0);
  }
  if (!isChecked) checkWindow(head, maxBytes);
  push(isChecked ? new Uint8Array(0) : head, true);
  yield* pieces.splice(0);
}

/** The library reserves the window that the first frame claims (RFC 8878, 3.1.1.1). */
function checkWindow(head: Uint8Array, maxBytes: number): void {
  const view = Buffer.from(head);
  if (view.length < 6 || view.readUInt32LE(0) !== 0xfd2fb528) throw new UnpackError("is not zstd");
  const descriptor = view[4]!;
  const isSingle = (descriptor & 0x20) !== 0;
  if (!isSingle) {
    if (2 ** (10 + (view[5]! >> 3)) > mostWindowBytes) throw new UnpackError("needs a window larger than 128 MiB");
    return;
  }
  const at = 5 + [0, 1, 2, 4][descriptor & 3]!;
  const width = [1, 2, 4, 8][descriptor >> 6]!;
  if (view.length < at + width) throw new UnpackError("is not all of a zstd body");
  const claimed = width === 8 ? Number(view.readBigUInt64LE(at)) : view.readUIntLE(at, width);
  if (claimed > maxBytes) throw new UnpackedTooLargeError();
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

function codeOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return "unknown";
  return "code" in error ? String(error.code) : error instanceof Error ? error.message : "unknown";
}
