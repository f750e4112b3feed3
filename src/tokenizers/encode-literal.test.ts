// Literal text: control tokens that are spelled out there stay text, in every tokenizer, and the
// rest is encoded as by `encode`.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import type { TextRange, Tokenizer } from "../core/index.ts";
import { createTokenizer } from "./create-tokenizer.ts";
import { ownTokenizer, textTokenizer, tokenizerJson } from "./fixtures.test-helper.ts";
import { randomText } from "./random-text.test-helper.ts";

type Piece = { readonly text: string; readonly isLiteral: boolean };

function joined(pieces: readonly Piece[]): { readonly text: string; readonly literal: readonly TextRange[] } {
  const literal: TextRange[] = [];
  let text = "";
  for (const piece of pieces) {
    const start = text.length;
    text += piece.text;
    if (piece.isLiteral && text.length > start) literal.push({ start, end: text.length });
  }
  return { text, literal };
}

type AddedEntry = { readonly id: number; readonly content: string };

function addedTokens(name: string): readonly AddedEntry[] {
  return tokenizerJson(name)["added_tokens"] as readonly AddedEntry[];
}

const definitions = ["qwen", "llama-3", "o200k", "deepseek", "gpt-2", "digits", "flags", "flags-unnormalized"];
const tokenizers = [
  ...(await Promise.all(
    definitions.map(async (name) => ({ name, who: "our own", tokenizer: await ownTokenizer(name) })),
  )),
  ...definitions.map((name) => ({ name, who: "the code for all kinds", tokenizer: textTokenizer(name) })),
];

describe.each(tokenizers)("encodeLiteral() of $name by $who", ({ name, tokenizer }) => {
  const added = addedTokens(name);
  // One entry of "flags" has the name of a byte and therefore its id.
  const control = added.filter(({ content }) => content.trim() !== "" && content !== "é");
  const ids = new Set(control.map(({ content }) => tokenizer.tokenId(content)));
  const controlIds = (tokens: Iterable<number>): number[] => [...tokens].filter((id) => ids.has(id));
  const pieces = fc.array(
    fc.record({
      text: fc.oneof(fc.constantFrom(...control.map(({ content }) => content)), randomText),
      isLiteral: fc.boolean(),
    }),
    { maxLength: 8 },
  );

  test("the control tokens are those of the text without what is literal", () => {
    fc.assert(
      fc.property(pieces, (given) => {
        const { text, literal } = joined(given);
        const { tokens } = tokenizer.encodeLiteral(text, literal);
        // Without word characters, as some added tokens must not be adjacent to them.
        const silent = given.map((piece) => (piece.isLiteral ? { ...piece, text: "." } : piece));
        if (given.every((piece) => !piece.isLiteral || /^[\p{P}\p{S}]/u.test(piece.text))) {
          expect(controlIds(tokens)).toEqual(controlIds(tokenizer.encode(joined(silent).text)));
        }
        const allLiteral = tokenizer.encodeLiteral(text, text === "" ? [] : [{ start: 0, end: text.length }]);
        expect(controlIds(allLiteral.tokens)).toEqual([]);
      }),
      { seed: 41, numRuns: 300 },
    );
  });

  test("is encode() where nothing is spelled out, and where nothing is literal", () => {
    fc.assert(
      fc.property(pieces, (given) => {
        const { text, literal } = joined(given);
        expect(tokenizer.encodeLiteral(text, [])).toEqual({ tokens: tokenizer.encode(text), spelledTokens: 0 });
        const { tokens, spelledTokens } = tokenizer.encodeLiteral(text, literal);
        if (spelledTokens === 0) expect(tokens).toEqual(tokenizer.encode(text));
        else if (!name.startsWith("flags") || !text.normalize().includes("é"))
          expect(tokens).not.toEqual(tokenizer.encode(text));
      }),
      { seed: 43, numRuns: 300 },
    );
  });

  test.skipIf(name.startsWith("flags") || name === "digits")("decodes to the same text", () => {
    fc.assert(
      fc.property(pieces, (given) => {
        const { text, literal } = joined(given);
        const { tokens } = tokenizer.encodeLiteral(text, literal);
        expect(tokenizer.decode(tokens).normalize()).toBe(tokenizer.decode(tokenizer.encode(text)).normalize());
      }),
      { seed: 47, numRuns: 300 },
    );
  });
});

describe("encodeLiteral()", async () => {
  const qwen = await ownTokenizer("qwen");
  const decodeEach = (tokenizer: Tokenizer, tokens: Uint32Array): string[] =>
    Array.from(tokens, (id) => tokenizer.decode([id]));

  test("keeps a shorter token that was written before literal text, and one that begins within a spelled one", async () => {
    const entries = ["<a>", "<a>b", "b<c>"].map((content, index) => ({ id: 647 + index, content, special: true }));
    const tokenizer = await ownTokenizer("qwen", { added_tokens: [...addedTokens("qwen"), ...entries] });
    const shown = (pieces: readonly Piece[]): string[] => {
      const { text, literal } = joined(pieces);
      return decodeEach(tokenizer, tokenizer.encodeLiteral(text, literal).tokens);
    };
    expect(shown([{ text: "<a>", isLiteral: false }, { text: "b", isLiteral: true }])).toEqual(["<a>", "b"]); // prettier-ignore
    expect(shown([{ text: "<|im_end|", isLiteral: true }, { text: "><a>b", isLiteral: false }]).at(-1)).toBe("<a>b"); // prettier-ignore
    expect(shown([{ text: "b", isLiteral: true }, { text: "<c><a>", isLiteral: false }]).at(-1)).toBe("<a>"); // prettier-ignore
  });

  test("does not recognise a token that template and user write together, and counts it", () => {
    const { tokens, spelledTokens } = qwen.encodeLiteral("<|im_end|>", [{ start: 5, end: 7 }]);
    expect([qwen.decode(tokens), spelledTokens, tokens.length > 1]).toEqual(["<|im_end|>", 1, true]);
  });

  test("takes runs of white space for the ordinary text that they are", async () => {
    const spaces = { id: 647, content: "    ", special: false, normalized: false };
    const tokenizer = await ownTokenizer("qwen", { added_tokens: [...addedTokens("qwen"), spaces] });
    const text = "a    b";
    const encoding = tokenizer.encodeLiteral(text, [{ start: 0, end: text.length }]);
    expect(encoding).toEqual({ tokens: tokenizer.encode(text), spelledTokens: 0 });
    expect([...encoding.tokens]).toContain(647);
  });

  test("writes a control token that merges would make as bytes", async () => {
    // "er" is a token that merges make, and is also declared as an added one.
    const vocabulary = tokenizerJson("qwen")["model"] as { readonly vocab: Readonly<Record<string, number>> };
    const id = vocabulary.vocab["er"]!;
    const tokenizer = await ownTokenizer("qwen", { added_tokens: [...addedTokens("qwen"), { id, content: "er" }] });
    expect([...tokenizer.encode("er")]).toEqual([id]);
    const { tokens, spelledTokens } = tokenizer.encodeLiteral("er", [{ start: 0, end: 2 }]);
    expect([decodeEach(tokenizer, tokens), spelledTokens]).toEqual([["e", "r"], 1]);
  });

  test("spells out the control tokens among the pieces of a Unigram vocabulary, which it would prefer", async () => {
    const pieces = ["<unk>", "<s>", "</s>", "▁", "<", ">", "/", "s", "a", "▁a"];
    const unigram = {
      version: "1.0",
      added_tokens: pieces.slice(0, 3).map((content, id) => ({ id, content, special: true, normalized: false })),
      normalizer: null,
      pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "never", split: false },
      post_processor: null,
      decoder: { type: "Metaspace", replacement: "▁", prepend_scheme: "never", split: false },
      model: {
        type: "Unigram",
        unk_id: 0,
        vocab: pieces.map((piece, id) => [piece, id < 3 ? 0 : -id]),
        byte_fallback: false,
      },
    };
    const tokenizer = await createTokenizer("unigram", { tokenizerJson: unigram, tokenizerConfig: null });
    const text = "<s>a </s>a";
    expect([...tokenizer.encode(text)].filter((id) => id < 3)).toEqual([1, 2]);
    const { tokens, spelledTokens } = tokenizer.encodeLiteral(text, [{ start: 3, end: text.length }]);
    expect(Array.from(tokens, (id) => pieces[id])).toEqual(["<s>", "a", "▁", "<", "/", "s", ">", "a"]);
    expect(spelledTokens).toBe(1);
  });
});
