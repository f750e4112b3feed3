// The body of a request that a server of ours received: read, and decoded as its content-encoding says, within one bound. What is bounded
// is what is unpacked: a decoder stops at the first byte too many, so a small body that unpacks to gigabytes costs no more than a large
// one. Knows no protocol: each server says in its own shape what is wrong. Not the bodies that we send, which are in `request-body.ts`.

import type { IncomingMessage } from "node:http";
import * as zlib from "node:zlib";
import { zstdFrames } from "./zstd-frames.ts";

/** A body that cannot be read, with the status that says so. */
export class BodyError extends Error {
  readonly status: 400 | 413 | 415;

  constructor(status: BodyError["status"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BodyError";
    this.status = status;
  }
}

/** Each is a whole decompression; clients send one. */
const mostEncodings = 3;

type Decoder = (bytes: Uint8Array, maxBytes: number) => Promise<Uint8Array>;

type ZlibFunction = (
  bytes: Uint8Array,
  options: { readonly maxOutputLength: number; readonly params?: Readonly<Record<number, number>> },
  callback: (error: Error | null, result: Buffer) => void,
) => void;

/** Node has it from 22.15 on, and its types do not know it. */
const { zstdDecompress } = zlib as { readonly zstdDecompress?: ZlibFunction };
/** ZSTD_d_windowLogMax, and the window that a content coding may have: 8 MiB (RFC 9659). */
const zstdWindow = { 100: 23 };

const decoders: Readonly<Record<string, Decoder>> = {
  gzip: zlibDecoder(zlib.gunzip),
  deflate: unpackDeflate,
  br: zlibDecoder(zlib.brotliDecompress),
  ...(zstdDecompress === undefined ? {} : { zstd: zstdDecoder(zlibDecoder(zstdDecompress, zstdWindow)) }),
};

/** What is decoded here, as the header `accept-encoding` of a refusal says it. */
export const acceptedEncodings = Object.keys(decoders).join(", ");

/**
 * Reads the bytes of a request, as they were sent. Rejects with a {@link BodyError} where there are too many, and then reads no further;
 * with another error where the client has gone. By events: an iterator over a stream costs as much as a small answer.
 */
export function readBytes(incoming: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const parts: Buffer[] = [];
    let size = 0;
    incoming.on("data", (part: Buffer) => {
      size += part.length;
      if (size > maxBytes) {
        incoming.pause();
        reject(tooLarge(maxBytes));
      } else parts.push(part);
    });
    incoming.on("end", () => resolve(parts.length === 1 ? parts[0]! : Buffer.concat(parts)));
    incoming.on("error", reject);
    incoming.on("close", () => reject(new Error("The client disconnected.")));
  });
}

/** Decodes a body. `encoding`: the header content-encoding. Rejects with a {@link BodyError}. */
export async function unpackBody(
  bytes: Buffer,
  encoding: string | readonly string[] | null | undefined,
  maxBytes: number,
): Promise<Buffer> {
  if (encoding === undefined || encoding === null || bytes.length === 0) return bytes;
  const names = String(encoding)
    .toLowerCase()
    .split(",")
    .map((name) => name.trim().replace(/^x-gzip$/, "gzip"))
    .filter((name) => name !== "" && name !== "identity");
  const unknown = names.find((name) => !Object.hasOwn(decoders, name));
  if (unknown !== undefined || names.length > mostEncodings) {
    const state =
      unknown === undefined
        ? `its body is encoded ${names.length} times`
        : `its content-encoding is ${JSON.stringify(unknown.slice(0, 60))}`;
    const older = unknown === "zstd" ? ", which Node decodes from 22.15 on" : "";
    throw new BodyError(415, `Cannot read the request: ${state}${older}; send one of ${acceptedEncodings}, or none.`);
  }
  let unpacked: Uint8Array = bytes;
  // The last one was applied last.
  for (const name of names.toReversed()) {
    try {
      unpacked = await decoders[name]!(unpacked, maxBytes);
    } catch (cause) {
      if (cause instanceof BodyError) throw cause;
      if (isTooLarge(cause)) throw tooLarge(maxBytes);
      const message = `Cannot read the request: its body is not ${name}, as its content-encoding says.`;
      throw new BodyError(400, message, { cause });
    }
  }
  return Buffer.from(unpacked.buffer, unpacked.byteOffset, unpacked.byteLength);
}

/** A request for a framework: decoded, under the same signal; itself where it is not encoded. Rejects with a {@link BodyError}. */
export async function unpackedRequest(request: Request, maxBytes: number): Promise<Request> {
  const encoding = request.headers.get("content-encoding");
  if (encoding === null || request.body === null) return request;
  const bytes = await readStream(request.body, maxBytes);
  const body = await unpackBody(bytes, encoding, maxBytes);
  const headers = new Headers(request.headers);
  headers.delete("content-encoding");
  headers.set("content-length", String(body.length));
  const { method, signal } = request;
  return new Request(request.url, { method, headers, signal, body: new Uint8Array(body) });
}

/** As `readBytes`, of a framework's request. */
export async function readStream(stream: AsyncIterable<Uint8Array> | null, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of stream ?? []) {
    size += part.length;
    if (size > maxBytes) throw tooLarge(maxBytes);
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function tooLarge(maxBytes: number): BodyError {
  return new BodyError(413, `Cannot read the request: its body has more than ${maxBytes} bytes.`);
}

/** In a thread of the pool, chunk by chunk. */
function zlibDecoder(unpack: ZlibFunction, params?: Readonly<Record<number, number>>): Decoder {
  return (bytes, maxOutputLength) =>
    new Promise((resolve, reject) => {
      unpack(bytes, { maxOutputLength, ...(params === undefined ? {} : { params }) }, (error, result) => {
        if (error === null) resolve(result);
        else reject(error);
      });
    });
}

/** Frame by frame, within one bound. */
function zstdDecoder(decodeFrame: Decoder): Decoder {
  return async (bytes, maxBytes) => {
    const parts: Uint8Array[] = [];
    let room = maxBytes;
    for (const frame of zstdFrames(bytes)) {
      // A decoder takes a bound of one byte or more: an empty frame fits where there is no room.
      const part = await decodeFrame(frame, Math.max(1, room));
      room -= part.length;
      if (room < 0) throw tooLarge(maxBytes);
      parts.push(part);
    }
    return Buffer.concat(parts);
  };
}

/** The standard says zlib's format; some clients send the bare one. */
async function unpackDeflate(bytes: Uint8Array, maxBytes: number): Promise<Uint8Array> {
  try {
    return await zlibDecoder(zlib.inflate)(bytes, maxBytes);
  } catch (error) {
    if (isTooLarge(error)) throw error;
    return zlibDecoder(zlib.inflateRaw)(bytes, maxBytes);
  }
}

function isTooLarge(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
}
