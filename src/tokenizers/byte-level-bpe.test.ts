import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { Tokenizer } from "../core/index.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { definitionNames, encodings, libraryTokenizer, ownTokenizer, tokenizerJson } from "./fixtures.test-helper.ts";
import { createJudge } from "./library-tokenizer.test-helper.ts";
import { loadTokenizer, readModelFile } from "./load-tokenizer.ts";
import { readBpe } from "./read-bpe.ts";
import { brokenText, randomText } from "./random-text.test-helper.ts";

const qwen = await ownTokenizer("qwen");

function decodeOneByOne(tokenizer: Tokenizer, ids: ArrayLike<number>): string {
  const decoder = tokenizer.startDecoding();
  return Array.from(ids, (id) => decoder.push(id)).join("") + decoder.finish();
}

describe("ByteLevelBpe against recorded Hugging Face tokenizers", () => {
  test.each(definitionNames)("definition %s: every text and every list of ids agrees", async (name) => {
    const tokenizer = await ownTokenizer(name);
    // Our own BPE reads the file, although patterns that only this test uses get a time limit.
    expect(() => readBpe(tokenizerJson(name), name)).not.toThrow();
    const records = encodings.filter((encoding) => encoding.definition === name);
    expect(records.length).toBeGreaterThan(40);
    for (const record of records) {
      const ids = record.text === null ? record.ids : [...tokenizer.encode(record.text)];
      expect({ ...record, ids }).toEqual({
        ...record,
        decoded: tokenizer.decode(ids),
        decoded_skip_special: tokenizer.decode(ids, { skipSpecialTokens: true }),
      });
      expect(decodeOneByOne(tokenizer, ids)).toBe(record.decoded);
    }
  });
});

describe("ByteLevelBpe against the tokenizer library", () => {
  test.each(["qwen", "llama-3", "o200k"])("definition %s: random texts have the same ids", async (name) => {
    const own = await ownTokenizer(name);
    const library = libraryTokenizer(name);
    fc.assert(
      fc.property(fc.oneof(randomText, brokenText), (text) => {
        expect([...own.encode(text)]).toEqual([...library.encode(text)]);
      }),
      { seed: 7, numRuns: 400 },
    );
  });

  const folder = sharedFolder("models", "qwen3");
  test.skipIf(folder === null)(
    "Qwen3: random texts have the same ids (skipped without ../shared/models/qwen3)",
    async () => {
      const own = await loadTokenizer(folder ?? "");
      const library = createJudge(JSON.parse((await readModelFile(folder ?? "", "tokenizer.json")) ?? "") as object);
      expect(own).toBeInstanceOf(ByteLevelBpe);
      expect(own.vocabularySize).toBe(library.vocabularySize);
      fc.assert(
        fc.property(fc.oneof(randomText, brokenText), (text) => {
          const ids = own.encode(text);
          expect([...ids]).toEqual([...library.encode(text)]);
          expect(own.decode(ids)).toBe(library.decode(ids));
        }),
        { seed: 8, numRuns: 400 },
      );
    },
  );
});

describe("ByteLevelBpe", () => {
  test("decode(encode(text)) is the normalized text, for every well-formed text", () => {
    fc.assert(
      fc.property(randomText, (text) => {
        expect(qwen.decode(qwen.encode(text))).toBe(text.normalize("NFC"));
      }),
      { seed: 1, numRuns: 400 },
    );
  });

  test("a lone surrogate is encoded as U+FFFD", () => {
    expect(qwen.encode("a\ud83db\udc4d")).toEqual(qwen.encode("a\ufffdb\ufffd"));
    expect(qwen.decode(qwen.encode("\udc4d\ud83d"))).toBe("\ufffd\ufffd");
  });

  test("ids pushed one by one decode to what they decode to at once, and no push splits a character", () => {
    const ids = fc.array(fc.integer({ min: 0, max: qwen.vocabularySize + 2 }), { maxLength: 40 });
    fc.assert(
      fc.property(ids, (list) => {
        expect(decodeOneByOne(qwen, list)).toBe(qwen.decode(list));
      }),
      { seed: 2, numRuns: 1000 },
    );
    fc.assert(
      fc.property(
        randomText.map((text) => qwen.encode(text)),
        (encoded) => {
          const decoder = qwen.startDecoding();
          for (const id of encoded)
            expect(decoder.push(id)).toSatisfy((piece: string) => !/\p{Surrogate}/u.test(piece));
          expect(decoder.finish()).toBe("");
        },
      ),
      { seed: 3, numRuns: 200 },
    );
  });

  test("a million equal characters are no trouble, and a random long word merges as its reference does", () => {
    const long = "a".repeat(1_000_000);
    expect(qwen.decode(qwen.encode(long))).toBe(long);
    const library = libraryTokenizer("qwen");
    const word = fc.string({ unit: fc.constantFrom("o", "r", "d", "e", "s", "t", "é"), minLength: 50, maxLength: 300 });
    fc.assert(
      fc.property(word, (text) => {
        expect([...qwen.encode(text)]).toEqual([...library.encode(text)]);
      }),
      { seed: 4, numRuns: 60 },
    );
  });

  test("remembered words encode as they did, after more words than it remembers", async () => {
    const words = Array.from({ length: 40_000 }, (_, index) => ` order${index.toString(36)}`);
    const encodeAll = (tokenizer: Tokenizer): string => words.map((word) => tokenizer.encode(word).join()).join("\n");
    const first = encodeAll(qwen);
    expect(encodeAll(qwen)).toBe(first);
    expect(encodeAll(await ownTokenizer("qwen"))).toBe(first);
  });

  test("tokens are known by their text; special ones are those that skipSpecialTokens leaves out", () => {
    expect(qwen.vocabularySize).toBe(647);
    expect(qwen.tokenId("<|im_end|>")).toBe(642);
    expect(qwen.tokenId("<think>")).toBe(645);
    expect(qwen.decode([qwen.tokenId(" the") ?? 0])).toBe(" the");
    expect(qwen.tokenId("no such token")).toBeNull();
    expect([640, 641, 642, 643, 645, 0].map((id) => qwen.isSpecial(id))).toEqual([
      true,
      true,
      true,
      false,
      false,
      false,
    ]);
    expect(qwen.decode([641, ...qwen.encode("hi"), 645, 642], { skipSpecialTokens: true })).toBe("hi<think>");
  });

  test("ids that are no token decode to nothing", () => {
    expect(qwen.decode([5000, ...qwen.encode("yes"), 2 ** 31])).toBe("yes");
    expect(decodeOneByOne(qwen, [5000, ...qwen.encode("yes"), 2 ** 31])).toBe("yes");
  });
});
