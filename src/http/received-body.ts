// The body of a request received by one of our servers: read, and decoded by its content-encoding,
// within one limit. Independent of protocols: each server reports errors in its own format. Request
// bodies that we send are in `request-body.ts`.

import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { acceptedEncodings, EncodingError, encodingsOf, unpack, UnpackedTooLargeError } from "./content-encoding.ts";

/** A body that cannot be read, with the HTTP status for the answer. */
export class BodyError extends Error {
  readonly status: 400 | 413 | 415;

  constructor(status: BodyError["status"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BodyError";
    this.status = status;
  }
}

/**
 * Reads the raw bytes of a request. Rejects with a {@link BodyError} if there are too many, and
 * then stops reading; rejects with another error if the client has disconnected. It uses events,
 * because an iterator over a stream costs as much as a small answer.
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

/** Decodes a body. `encoding` is the content-encoding header. Rejects with a {@link BodyError}. */
export async function unpackBody(
  bytes: Buffer,
  encoding: string | readonly string[] | null | undefined,
  maxBytes: number,
): Promise<Buffer> {
  const encodings = encodingsOf(encoding);
  if (encodings.length === 0 || bytes.length === 0) return bytes;
  const parts: Uint8Array[] = [];
  try {
    for await (const part of unpack(Readable.from([bytes]), encodings, maxBytes)) parts.push(part);
  } catch (cause) {
    if (cause instanceof UnpackedTooLargeError) throw tooLarge(maxBytes);
    if (cause instanceof EncodingError) {
      const remedy = `send one of ${acceptedEncodings}, or none`;
      throw new BodyError(415, `Cannot read the request: its body ${cause.message}; ${remedy}.`);
    }
    const message = `Cannot read the request: its body is not encoded as ${encodings.join(", ")}, although its content-encoding says so.`;
    throw new BodyError(400, message, { cause });
  }
  return Buffer.concat(parts);
}

/**
 * A decoded request for a framework, with the same signal; the request itself if it is not encoded.
 * Rejects with a {@link BodyError}.
 */
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

/** Reads the raw bytes of a framework's request; otherwise like `readBytes`. */
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
  return new BodyError(413, `Cannot read the request: its body has more than ${maxBytes} bytes; send less.`);
}
