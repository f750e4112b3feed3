import * as zlib from "node:zlib";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { acceptedEncodings } from "./content-encoding.ts";
import { BodyError, readStream, unpackBody, unpackedRequest } from "./received-body.ts";

/** Memory of this thread; the memory of the process includes that of other tests. */
function heldBytes(): number {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

const { zstdCompressSync } = zlib as { readonly zstdCompressSync?: (bytes: Uint8Array) => Buffer };
/** A skippable frame, which decoders ignore. */
const skipped = Buffer.from("502a4d1803000000616263", "hex");

type Encoding = readonly [string, (bytes: Uint8Array) => Buffer];
const encodings: readonly Encoding[] = [
  ["gzip", (bytes) => zlib.gzipSync(bytes)],
  ["x-gzip", (bytes) => zlib.gzipSync(bytes, { level: 0 })],
  ["deflate", (bytes) => zlib.deflateSync(bytes)],
  ["deflate", (bytes) => zlib.deflateRawSync(bytes)],
  ["br", (bytes) => zlib.brotliCompressSync(bytes)],
  ["identity", (bytes) => Buffer.from(bytes)],
  ...(zstdCompressSync === undefined
    ? []
    : ([
        ["zstd", zstdCompressSync],
        [
          "zstd",
          (bytes) =>
            Buffer.concat([skipped, zstdCompressSync(bytes.subarray(0, 9)), zstdCompressSync(bytes.subarray(9))]),
        ],
      ] satisfies Encoding[])),
];

const failure = async (unpacking: Promise<unknown>): Promise<BodyError> => {
  const error = await unpacking.then(
    () => new Error("It was unpacked."),
    (caught: unknown) => caught,
  );
  if (error instanceof BodyError) return error;
  throw error;
};

describe("unpackBody()", () => {
  it("decodes every encoding and all lists of them, as long as what is unpacked has no byte too many", async () => {
    const bodies = fc.oneof(
      fc.uint8Array({ minLength: 2, maxLength: 3000 }),
      fc.nat(3000).map((size) => new Uint8Array(size + 2)),
    );
    await fc.assert(
      fc.asyncProperty(bodies, fc.array(fc.constantFrom(...encodings), { maxLength: 3 }), async (body, applied) => {
        const packed = applied.reduce<Buffer>((bytes, [, pack]) => pack(bytes), Buffer.from(body));
        const header = applied
          .map(([name], at) => (at % 2 === 0 ? name : name.toUpperCase()))
          .join(applied.length % 2 === 0 ? "," : ", ");
        const room = Math.max(body.length, ...intermediate(body, applied));
        expect(Buffer.compare(await unpackBody(packed, header, room), body)).toBe(0);
        if (applied.every(([name]) => name === "identity")) return;
        expect(await failure(unpackBody(packed, header, body.length - 1))).toMatchObject({ status: 413 });
      }),
    );
  });

  it("refuses an encoding that it does not know, and names those that it does", async () => {
    for (const name of ["compress", "aws-chunked", "gzip2", "constructor", "gzip, lzma", "gzip;q=1", "*"]) {
      const error = await failure(unpackBody(Buffer.from("{}"), name, 100));
      expect(error).toMatchObject({ status: 415, message: expect.stringContaining(acceptedEncodings) as unknown });
    }
    const often = "gzip, gzip, gzip, gzip";
    expect(await failure(unpackBody(Buffer.from("{}"), often, 100))).toMatchObject({ status: 415 });
  });

  it("decodes zstd where this Node does, and says from which on where it does not", async () => {
    // `{}` in a frame with one raw block, with and without its size, and in a block that repeats a
    // byte.
    const whole = Buffer.from("28b52ffd20021100007b7d", "hex");
    const streamed = Buffer.from("28b52ffd00581100007b7d", "hex");
    const repeated = Buffer.from("28b52ffd20031b000020", "hex");
    for (const [bytes, text] of [
      [whole, "{}"],
      [streamed, "{}"],
      [repeated, "   "],
    ] as const) {
      const unpacking = unpackBody(bytes, "zstd", 100);
      if (zstdCompressSync === undefined) expect((await failure(unpacking)).message).toContain("22.15");
      else expect((await unpacking).toString()).toBe(text);
    }
  });

  it("refuses a body that is not encoded as its header says, cut short or changed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...encodings), fc.nat(), fc.nat(255), async ([name, pack], place, byte) => {
        fc.pre(name !== "identity");
        const body = Buffer.from(JSON.stringify({ messages: Array.from({ length: 20 }, (_, at) => `message ${at}`) }));
        const packed = pack(body);
        const cut = packed.subarray(0, 1 + (place % (packed.length - 1)));
        const changed = Buffer.from(packed);
        changed[place % packed.length] = byte;
        // A cut between two frames leaves a complete body.
        const first = skipped.length + (zstdCompressSync?.(body.subarray(0, 9)).length ?? 0);
        const isWhole = name === "zstd" && cut.length === first;
        if (!isWhole && cut.length > skipped.length)
          expect(await failure(unpackBody(cut, name, 1000))).toMatchObject({ status: 400 });
        const unpacked = await unpackBody(changed, name, 1000).catch((error: unknown) => error);
        if (unpacked instanceof Error) expect([400, 413]).toContain((unpacked as BodyError).status);
        else expect((unpacked as Buffer).length).toBeLessThanOrEqual(1000);
      }),
    );
    expect(await failure(unpackBody(Buffer.from('{"a": 1}'), "gzip", 100))).toMatchObject({ status: 400 });
  });

  it("stops at the bound of a body that unpacks to far more, in every encoding and packed twice", async () => {
    // Consecutive members form one body.
    const member = zlib.gzipSync(Buffer.alloc(2 ** 24));
    const quick = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } };
    const bombs: readonly (readonly [string, Buffer])[] = [
      ["gzip", Buffer.concat(Array.from({ length: 64 }, () => member))],
      ["deflate", zlib.deflateRawSync(Buffer.alloc(2 ** 26), { level: 1 })],
      ["br", zlib.brotliCompressSync(Buffer.alloc(2 ** 26), quick)],
    ];
    const twice = ["gzip, gzip", zlib.gzipSync(bombs[0]![1])] as const;
    for (const [name, bytes] of [...bombs, twice]) {
      const before = heldBytes();
      expect(await failure(unpackBody(bytes, name, 2 ** 20))).toMatchObject({ status: 413 });
      expect(heldBytes() - before).toBeLessThan(64 * 2 ** 20);
    }
  });

  it("leaves a body without an encoding, and an empty one, as they are", async () => {
    const bytes = Buffer.from("{}");
    for (const none of [undefined, null, "", "identity", " , "])
      expect(await unpackBody(bytes, none, 1)).toEqual(bytes);
    expect(await unpackBody(Buffer.alloc(0), "gzip", 1)).toHaveLength(0);
  });
});

it("unpackedRequest() is the request decoded, or itself", async () => {
  const url = "http://server.invalid/";
  const plain = new Request(url, { method: "POST", body: "{}" });
  expect(await unpackedRequest(plain, 10)).toBe(plain);
  const headers = { "content-encoding": "gzip", "content-type": "application/json", "x-other": "1" };
  const packed = new Request(url, { method: "POST", body: new Uint8Array(zlib.gzipSync('{"a": 1}')), headers });
  const unpacked = await unpackedRequest(packed, 100);
  expect([await unpacked.json(), unpacked.headers.get("content-encoding"), unpacked.headers.get("x-other")]).toEqual([
    { a: 1 },
    null,
    "1",
  ]);
});

it("readStream() reads no further than its bound", async () => {
  let given = 0;
  const stream = (async function* endless() {
    for (;;) {
      given++;
      yield new Uint8Array(10);
    }
  })();
  expect(await failure(readStream(stream, 35))).toMatchObject({ status: 413 });
  expect(given).toBe(4);
});

/** The size after each encoding step; all must be within the limit too. */
function intermediate(body: Uint8Array, applied: readonly Encoding[]): number[] {
  let bytes: Uint8Array = body;
  return applied.map(([, pack]) => (bytes = pack(bytes)).length);
}
