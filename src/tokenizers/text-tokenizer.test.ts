// Tokenizers of every kind against the output of Hugging Face tokenizers for the same definitions
// (recorded by `npm run verify -- tokenizers -- --write`: see the first line of
// fixtures/kinds.jsonl), and the kinds that are refused by name.

import { readFileSync } from "node:fs";

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { createTokenizer, UnsupportedTokenizerError } from "./create-tokenizer.ts";
import { definitionNames, encodings, textTokenizer, tokenizerJson as recordedJson } from "./fixtures.test-helper.ts";

/** A small tokenizer of the SentencePiece kind: "▁" for a space, bytes for unknown characters. */
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

describe("a tokenizer of the SentencePiece kind", () => {
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
});

type Attempt = { readonly value?: unknown };
type Kind = {
  readonly name: string;
  readonly definition: { readonly model: { readonly vocab: number; readonly merges: number } };
  readonly isRefused: boolean;
  readonly texts: readonly { readonly text: string; readonly ids: Attempt; readonly decoded: Attempt | null }[];
  readonly lists: readonly { readonly ids: readonly number[]; readonly decoded: Attempt; readonly skipped: Attempt }[];
};

const [, tableLine = "", ...kindLines] = readFileSync(new URL("./fixtures/kinds.jsonl", import.meta.url), "utf8")
  .trimEnd()
  .split("\n");
const tables = JSON.parse(tableLine) as readonly unknown[];
const kinds = kindLines.map((line) => JSON.parse(line) as Kind);

function load({ name, definition }: Kind): ReturnType<typeof createTokenizer> {
  const { vocab, merges, ...model } = definition.model;
  const tokenizerJson = { ...definition, model: { ...model, vocab: tables[vocab], merges: tables[merges] } };
  return createTokenizer(name, { tokenizerJson, tokenizerConfig: null });
}

/** Definitions without proof, which are refused. */
const refused: Readonly<Record<string, RegExp>> = {
  "bpe-dropout": /its model has the field "dropout"/,
  "bpe-unknown-missing": /its model has an unk_token, "\[nope\]", that the vocabulary lacks/,
  "unigram-no-unknown": /its model has Unigram without an unk_id/,
  "pre-UnicodeScripts": /its pre_tokenizer has "UnicodeScripts"/,
  "pre-fixed-length": /its pre_tokenizer has "FixedLength"/,
  "pre-words-regex": /its pre_tokenizer has the pattern .* has "\\w"/,
  "decoder-strip-end": /its decoder has Strip at the end of tokens/,
  "decoder-ctc": /its decoder has "CTC"/,
  "decoder-replace-after-fuse": /its decoder has "Replace" after a part that joins all tokens/,
};

describe("tokenizers of every kind", () => {
  test.each(kinds)("$name: ids and texts are those of Hugging Face tokenizers, or it is refused", async (kind) => {
    const reason = refused[kind.name];
    if (reason !== undefined) {
      await expect(load(kind)).rejects.toThrow(UnsupportedTokenizerError);
      await expect(load(kind)).rejects.toThrow(reason);
      await expect(load(kind)).rejects.toThrow(/use a model whose tokenizer has another one/);
      return;
    }
    expect(kind.isRefused).toBe(false);
    const tokenizer = await load(kind);
    for (const { text, ids, decoded } of kind.texts) {
      expect([text, [...tokenizer.encode(text)]]).toEqual([text, ids.value]);
      expect([text, tokenizer.decode(ids.value as number[])]).toEqual([text, decoded?.value]);
    }
    for (const { ids, decoded, skipped } of kind.lists) {
      const decoder = tokenizer.startDecoding();
      const pushed = ids.map((id) => decoder.push(id)).join("") + decoder.finish();
      const whole = [tokenizer.decode(ids), tokenizer.decode(ids, { skipSpecialTokens: true })];
      expect([ids, ...whole, pushed]).toEqual([ids, decoded.value, skipped.value, decoded.value]);
    }
  });

  test.each(definitionNames)("the byte-level definition %s gives the recorded ids and texts, too", (name) => {
    const tokenizer = textTokenizer(name);
    for (const record of encodings.filter(({ definition }) => definition === name)) {
      const ids = record.text === null ? record.ids : [...tokenizer.encode(record.text)];
      const decoded = tokenizer.decode(ids);
      expect({ ...record, ids, decoded }).toEqual(record);
    }
  });

  test.each<[string, object, RegExp]>([
    ["a model of an unknown type", { model: { type: "Sorcery", vocab: {} } }, /its model has "Sorcery"/],
    [
      "a field that is not known",
      { ...recordedJson("qwen"), decoder: null, model: { ...(recordedJson("qwen")["model"] as object), mood: 1 } },
      /the field "mood"/,
    ],
    [
      "an unknown normalizer",
      { ...recordedJson("qwen"), normalizer: { type: "Shuffle" } },
      /its normalizer has "Shuffle"/,
    ],
    [
      "a Split without behavior",
      { ...recordedJson("qwen"), pre_tokenizer: { type: "Split", pattern: { String: "a" }, invert: false } },
      /its pre_tokenizer has the behavior missing/,
    ],
    ["an unknown decoder", { ...recordedJson("qwen"), decoder: { type: "Rot13" } }, /its decoder has "Rot13"/],
  ])("%s is refused by name", async (_, tokenizerJson, message) => {
    const creating = createTokenizer("x", { tokenizerJson, tokenizerConfig: null }, { source: "m/tokenizer.json" });
    await expect(creating).rejects.toThrow(UnsupportedTokenizerError);
    await expect(creating).rejects.toThrow(message);
    await expect(creating).rejects.toThrow('Cannot use tokenizer "m/tokenizer.json": ');
  });

  test("a long text without pre-tokenizer takes milliseconds, not minutes", async () => {
    const llama = await load(kinds.find(({ name }) => name === "llama-2")!);
    const text = "the order of the customer ".repeat(8000);
    const started = process.cpuUsage();
    expect(llama.decode(llama.encode(text))).toBe(text);
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(5000);
  });
});
