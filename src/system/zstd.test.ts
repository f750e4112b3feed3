import * as zlib from "node:zlib";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hasZstd, unpackZstd, zstdFrames } from "./zstd.ts";

/**
 * `{}` in a frame with one raw block, with and without its size, and in a block that repeats a
 * byte.
 */
const frames = ["28b52ffd20021100007b7d", "28b52ffd00581100007b7d", "28b52ffd20031b000020"].map((hex) =>
  Buffer.from(hex, "hex"),
);
/** A skippable frame, which decoders ignore. */
const skipped = Buffer.from("502a4d1803000000616263", "hex");

async function* pieces(bytes: Uint8Array, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function whole(chunks: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  for await (const part of chunks) parts.push(part);
  return Buffer.concat(parts);
}

async function framesIn(bytes: Uint8Array, size: number): Promise<Buffer[]> {
  const found: Buffer[] = [];
  for await (const frame of zstdFrames(pieces(bytes, size))) found.push(await whole(frame));
  return found;
}

describe("zstdFrames()", () => {
  test("finds every frame, in whatever pieces the bytes come", async () => {
    const bytes = Buffer.concat([skipped, ...frames.flatMap((frame) => [frame, skipped])]);
    for (const size of [1, 2, 3, 7, 1000]) expect(await framesIn(bytes, size)).toEqual(frames);
    expect(await framesIn(Buffer.alloc(0), 1)).toEqual([]);
  });

  test("refuses bytes that were cut short anywhere, that are no frame, and too many frames", async () => {
    for (const frame of [...frames, skipped]) {
      for (let cut = 1; cut < frame.length; cut++) {
        await expect(framesIn(frame.subarray(0, cut), 3)).rejects.toThrow("cut short");
      }
    }
    await expect(framesIn(Buffer.from("no frame at all"), 4)).rejects.toThrow("not a zstd frame");
    const many = Buffer.concat(Array.from({ length: 101 }, () => frames[0]!));
    await expect(framesIn(many, 100)).rejects.toThrow("too many");
  });
});

describe.skipIf(!hasZstd)("unpackZstd() (needs Node 22.15)", () => {
  test("gives back what was packed, of all frames, in whatever pieces", async () => {
    const { zstdCompressSync: pack } = zlib as unknown as { readonly zstdCompressSync: (bytes: Uint8Array) => Buffer };
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 3000 }), { minLength: 1, maxLength: 4 }),
        fc.integer({ min: 1, max: 500 }),
        async (parts, size) => {
          const packed = Buffer.concat(parts.map((part) => pack(part)));
          expect((await whole(unpackZstd(pieces(packed, size)))).equals(Buffer.concat(parts))).toBe(true);
        },
      ),
      { numRuns: 50 },
    );
  });

  test("rejects as its source does", async () => {
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield frames[0]!.subarray(0, 7);
      throw new Error("the connection broke");
    }
    await expect(whole(unpackZstd(broken()))).rejects.toThrow("the connection broke");
  });
});
