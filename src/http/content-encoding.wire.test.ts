// Bodies compressed by servers: decompressed for every client, with limits on the decompressed
// size.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { AttributedError } from "../core/failure.ts";
import { parseBaseUrl } from "./base-url.ts";
import { httpFetch } from "./http-fetch.ts";
import { createHttpPool } from "./http-pool.ts";
import { hasZstd } from "../system/zstd.ts";
import { encodingsOf, unpack } from "./content-encoding.ts";

/** Memory of this thread; the memory of the process includes that of other tests. */
function heldBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** A zstd frame with a raw block for each piece (RFC 8878). */
function zstdOf(data: Buffer): Buffer {
  const pieces = Array.from({ length: Math.max(1, Math.ceil(data.length / 100_000)) }, (_, at) =>
    data.subarray(at * 100_000, (at + 1) * 100_000),
  );
  const blocks = pieces.flatMap((piece, at) => [header(piece.length, 0, at === pieces.length - 1), piece]);
  return Buffer.concat([zstdHead, ...blocks]);
}

/** Magic number, a descriptor without a content size, and a window of 1 MiB. */
const zstdHead = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x50]);
function header(size: number, type: number, isLast: boolean): Buffer {
  const bytes = Buffer.alloc(3);
  bytes.writeUIntLE((size << 3) | (type << 1) | (isLast ? 1 : 0), 0, 3);
  return bytes;
}

/** A zstd frame with four bytes for each 128 KiB of one repeated letter. */
function zstdBomb(bytes: number): Buffer {
  const count = Math.ceil(bytes / 131_072);
  const block = (isLast: boolean) => Buffer.concat([header(131_072, 1, isLast), Buffer.from("x")]);
  return Buffer.concat([zstdHead, ...Array.from({ length: count }, (_, at) => block(at === count - 1))]);
}

const packers: Readonly<Record<string, (data: Buffer) => Buffer>> = {
  gzip: (data) => gzipSync(data),
  "x-gzip": (data) => gzipSync(data),
  deflate: (data) => deflateSync(data),
  "deflate (bare)": (data) => deflateRawSync(data),
  br: (data) => brotliCompressSync(data),
  // Two frames, like those of a proxy that compresses piece by piece.
  ...(hasZstd
    ? { zstd: (data: Buffer) => Buffer.concat([zstdOf(data.subarray(0, 5)), zstdOf(data.subarray(5))]) }
    : {}),
  "gzip, br": (data) => brotliCompressSync(gzipSync(data)),
  identity: (data) => data,
};
const names = Object.keys(packers);
const encodingOf = (name: string): string => name.replace(" (bare)", "");

let answer: { readonly body: Buffer; readonly encoding: string } = { body: Buffer.alloc(0), encoding: "" };
const server = createServer((incoming, outgoing) => {
  incoming.resume();
  outgoing.writeHead(200, { "content-type": "application/json", "content-encoding": answer.encoding });
  outgoing.end(answer.body);
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const pool = createHttpPool({ boundary: "engine" });
afterAll(async () => {
  await pool.close();
  server.close();
});

const request = {
  base: parseBaseUrl(url, { what: "server" }),
  method: "GET",
  path: "/",
  headers: {},
  body: null,
} as const;

async function whole(maxBytes: number): Promise<Buffer> {
  return (await pool.request(request, { maxBytes })).body;
}

async function streamed(maxBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  for await (const piece of (await pool.stream(request, { maxBytes })).chunks) pieces.push(piece);
  return Buffer.concat(pieces);
}

async function fetched(maxBytes: number): Promise<Buffer> {
  const response = await httpFetch(pool, { maxBytes, bodies: "streamed" })(`${url}/`);
  return Buffer.from(await response.arrayBuffer());
}

const readers = { whole, streamed, fetched };
const failureOf = async (reading: Promise<unknown>): Promise<string> =>
  reading.then(
    () => "none",
    (error: unknown) => (error instanceof AttributedError ? `${error.failure.code}: ${error.message}` : String(error)),
  );

describe.each(Object.entries(readers))("a body that is read %s", (_, read) => {
  it.each(names)("as %s is unpacked", async (name) => {
    const text = Buffer.from(JSON.stringify({ text: "ünicode ".repeat(20_000) }));
    answer = { body: packers[name]!(text), encoding: encodingOf(name) };
    expect((await read(text.length)).equals(text)).toBe(true);
    expect(await failureOf(read(text.length - 1))).toContain(`bad-reply: `);
    answer = { body: Buffer.alloc(0), encoding: encodingOf(name) };
    expect(await read(10)).toHaveLength(0);
  });

  const bombs: readonly (readonly [string, Buffer])[] = [
    ["gzip", gzipSync(Buffer.alloc(300_000_000, "x"))],
    ["br", brotliCompressSync(Buffer.alloc(300_000_000, "x"))],
    ...(hasZstd ? ([["zstd", zstdBomb(4_000_000_000)]] as const) : []),
    ["gzip, gzip", gzipSync(gzipSync(Buffer.alloc(300_000_000, "x")))],
  ];
  it.each(bombs)(
    "as %s is refused when it unpacks to more than the bound, and takes no memory for it",
    async (encoding, body) => {
      answer = { body, encoding };
      const before = heldBytes();
      expect(await failureOf(read(2_000_000))).toContain("the answer is larger than 2000000 bytes");
      expect(heldBytes() - before).toBeLessThan(120_000_000);
    },
  );

  it.each([
    ["gzip", gzipSync(Buffer.alloc(100_000, "x")).subarray(0, 60)],
    ["gzip", Buffer.from("{}")],
    ["br", Buffer.from("not brotli at all, no")],
    ["deflate", Buffer.from([0x78, 0x9c, 1, 2, 3])],
    ["zstd", Buffer.from("nothing of the kind")],
    ["zstd", zstdOf(Buffer.from("{}")).subarray(0, -1)],
    ["zstd", Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xff]), Buffer.alloc(40)])],
    ["rot13", Buffer.from("{}")],
    ["gzip, gzip, gzip, gzip, gzip", gzipSync("{}")],
  ])("that is no %s is a bad reply", async (encoding, body) => {
    answer = { body, encoding };
    expect(await failureOf(read(1_000_000))).toMatch(
      /^bad-reply: Cannot finish GET http:\/\/127\.0\.0\.1:\d+\/: the answer /,
    );
  });
});

it("unpack() gives back what was packed, in whatever pieces it comes", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 5_000 }),
      fc.constantFrom(...names),
      fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 5 }),
      async (bytes, name, sizes) => {
        const packed = packers[name]!(Buffer.from(bytes));
        async function* pieces(): AsyncGenerator<Uint8Array> {
          for (let at = 0, index = 0; at < packed.length; index++) {
            const size = sizes[index % sizes.length]!;
            yield packed.subarray(at, at + size);
            at += size;
          }
        }
        const parts: Uint8Array[] = [];
        for await (const part of unpack(pieces(), encodingsOf(encodingOf(name)), 10_000)) parts.push(part);
        expect(Buffer.concat(parts).equals(Buffer.from(bytes))).toBe(true);
      },
    ),
    { numRuns: 60 },
  );
});
