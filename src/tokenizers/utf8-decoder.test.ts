import fc from "fast-check";
import { expect, test } from "vitest";

import { decodeUtf8, Utf8Joiner } from "./utf8-decoder.ts";

const byte = fc.oneof(
  fc.integer({ min: 0, max: 255 }),
  fc.constantFrom(0xe0, 0xed, 0xf0, 0xf4, 0x9f, 0xa0, 0x8f, 0x90, 0xc2, 0x80),
);

test("Utf8Joiner gives in parts what decoding gives at once, however the bytes are cut", () => {
  fc.assert(
    fc.property(fc.array(fc.array(byte, { maxLength: 5 }), { maxLength: 12 }), (chunks) => {
      const joiner = new Utf8Joiner();
      const parts = chunks.map((chunk) => joiner.push(chunk.length, (target, offset) => target.set(chunk, offset)));
      expect(parts.join("") + joiner.finish()).toBe(decodeUtf8(Uint8Array.from(chunks.flat())));
    }),
    { seed: 5, numRuns: 2000 },
  );
});

test("Utf8Joiner puts out a character with its last byte, and holds no byte that cannot become one", () => {
  const joiner = new Utf8Joiner();
  const push = (...bytes: number[]): string => joiner.push(bytes.length, (target, offset) => target.set(bytes, offset));
  expect([push(0xf0), push(0x9f, 0x98), push(0x80)]).toEqual(["", "", "😀"]);
  expect([push(0xed), push(0xa0), push(0x80)]).toEqual(["", "\ufffd\ufffd", "\ufffd"]);
  expect(joiner.isClean).toBe(true);
});
