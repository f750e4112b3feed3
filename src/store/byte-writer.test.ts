import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ByteWriter } from "./byte-writer.ts";

const bytesOf = (words: Uint32Array): Buffer => {
  const bytes = Buffer.alloc(words.length * 4);
  words.forEach((word, index) => bytes.writeUInt32LE(word, index * 4));
  return bytes;
};

describe("ByteWriter", () => {
  it("quotes every text as JSON.stringify, short or long", () => {
    const texts = fc.oneof(
      fc.string({ unit: "binary", maxLength: 300 }),
      fc.string({ unit: "grapheme-ascii", maxLength: 400 }),
      fc.constantFrom('"', "\\", "\n\t\r", "\u007f", "\ud800", "é", "", "\u2028", "a".repeat(200_000)),
    );
    fc.assert(
      fc.property(fc.array(texts, { maxLength: 5 }), (list) => {
        const writer = new ByteWriter();
        for (const text of list) writer.quoted(text);
        expect(writer.view().toString()).toBe(list.map((text) => JSON.stringify(text)).join(""));
      }),
      { seed: 5, numRuns: 300 },
    );
  });

  it("writes words in base64 as their little-endian bytes are written", () => {
    fc.assert(
      fc.property(fc.uint32Array({ maxLength: 40 }), fc.nat(70_000), (words, before) => {
        const writer = new ByteWriter();
        writer.ascii("x".repeat(before));
        writer.base64(words);
        writer.ascii("y");
        expect(writer.view(before).toString()).toBe(`${bytesOf(words).toString("base64")}y`);
      }),
      { seed: 5, numRuns: 300 },
    );
  });

  it("writes whole numbers in digits, up to the largest that are safe", () => {
    const numbers = fc.oneof(fc.maxSafeNat(), fc.nat(1000), fc.constantFrom(0, 9, 10, 2 ** 32, 10 ** 15, 2 ** 53 - 1));
    fc.assert(
      fc.property(fc.array(numbers), (list) => {
        const writer = new ByteWriter();
        for (const number of list) {
          writer.digits(number);
          writer.short(Uint8Array.of(44, 32));
        }
        expect(writer.view().toString()).toBe(list.map((number) => `${number}, `).join(""));
      }),
      { seed: 5, numRuns: 300 },
    );
  });

  it("takes back what it is told to, and takes secrets out of the rest", () => {
    const writer = new ByteWriter();
    writer.text("kept secret ");
    const start = writer.length;
    writer.text("a secret é");
    writer.redact(start, (text) => text.replaceAll("secret", "***"));
    writer.text("; gone");
    writer.cut(writer.length - 6);
    expect(writer.view().toString()).toBe("kept secret a *** é");
    expect(writer.length).toBe(20);
  });
});
