import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { createTokenizer } from "./create-tokenizer.ts";

/** A small tokenizer of the SentencePiece kind: "▁" for a space, bytes for what it does not know. */
const letters = Array.from("▁abcdehlortw!");
const bytes = Array.from({ length: 256 }, (_, byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`);
const pieces = ["<unk>", "<s>", "</s>", ...bytes, ...letters, "he", "ll", "▁w", "or", "▁the", "▁th"];
const metaspace = {
  version: "1.0",
  added_tokens: ["<unk>", "<s>", "</s>"].map((content, id) => ({ id, content, special: true, normalized: false })),
  normalizer: {
    type: "Sequence",
    normalizers: [
      { type: "Prepend", prepend: "▁" },
      { type: "Replace", pattern: { String: " " }, content: "▁" },
    ],
  },
  pre_tokenizer: null,
  post_processor: null,
  decoder: {
    type: "Sequence",
    decoders: [
      { type: "Replace", pattern: { String: "▁" }, content: " " },
      { type: "ByteFallback" },
      { type: "Fuse" },
      { type: "Strip", content: " ", start: 1, stop: 0 },
    ],
  },
  model: {
    type: "BPE",
    unk_token: "<unk>",
    fuse_unk: true,
    byte_fallback: true,
    vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])),
    merges: ["h e", "l l", "▁ w", "o r"],
  },
};

describe("the tokenizer library, for what is not byte-level BPE", () => {
  test("encodes without adding tokens, decodes what it encoded, and knows special tokens", async () => {
    const tokenizer = await createTokenizer("small", { tokenizerJson: metaspace, tokenizerConfig: null });
    expect(tokenizer).not.toBeInstanceOf(ByteLevelBpe);
    const ids = tokenizer.encode("hello world");
    expect(ids).toBeInstanceOf(Uint32Array);
    expect(tokenizer.decode(ids)).toBe("hello world");
    expect(tokenizer.decode([])).toBe("");
    expect(tokenizer.decode([1, ...ids, 2], { skipSpecialTokens: true })).toBe("hello world");
    expect(tokenizer.vocabularySize).toBe(pieces.length);
    expect([tokenizer.isSpecial(1), tokenizer.isSpecial(5), tokenizer.tokenId("▁the"), tokenizer.tokenId("x y")]).toEqual([
      true, false, pieces.indexOf("▁the"), null,
    ]); // prettier-ignore
  });

  test("ids pushed one by one decode to what they decode to at once, for encoded texts", async () => {
    const tokenizer = await createTokenizer("small", { tokenizerJson: metaspace, tokenizerConfig: null });
    const text = fc.array(fc.constantFrom("hello", " world", " the", "é", "日本", "👍🏽", " ", "!", "xyz"), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(
        text.map((parts) => parts.join("")),
        (written) => {
          const ids = tokenizer.encode(written);
          const decoder = tokenizer.startDecoding();
          const pushed = Array.from(ids, (id) => decoder.push(id));
          expect(pushed.join("") + decoder.finish()).toBe(tokenizer.decode(ids));
          for (const piece of pushed) expect(piece).not.toMatch(/\p{Surrogate}/u);
        },
      ),
      { seed: 6, numRuns: 300 },
    );
  });

  test("a definition that the library refuses too is a configuration error that gives both reasons", async () => {
    const broken = { ...metaspace, model: { type: "Sorcery", vocab: {} } };
    const creating = createTokenizer(
      "x",
      { tokenizerJson: broken, tokenizerConfig: null },
      { source: "m/tokenizer.json" },
    );
    await expect(creating).rejects.toThrow(ConfigurationError);
    await expect(creating).rejects.toThrow(
      /"m\/tokenizer.json": it is not byte-level BPE \(its model is of type "Sorcery"\), and/,
    );
  });
});
