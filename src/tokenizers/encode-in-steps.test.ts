import fc from "fast-check";
import { describe, expect, test } from "vitest";

import type { TextRange } from "../core/index.ts";
import { expectLinear } from "../lib/growth.test-helper.ts";
import { finish } from "../lib/steps.ts";
import { ownTokenizer, tokenizerJson } from "./fixtures.test-helper.ts";
import { randomText } from "./random-text.test-helper.ts";

const names = ["qwen", "llama-3", "o200k", "deepseek", "gpt-2", "digits", "flags", "flags-unnormalized"];
const tokenizers = await Promise.all(names.map(async (name) => ({ name, tokenizer: await ownTokenizer(name) })));

/** Longer than a text that is encoded at once. */
const longLength = 33_000;

describe.each(tokenizers)("encodeInSteps() of $name", ({ name, tokenizer }) => {
  const added = (tokenizerJson(name)["added_tokens"] as readonly { readonly content: string }[]).map(
    (one) => one.content,
  );
  const repeat = (text: string): string => text.repeat(Math.ceil(longLength / Math.max(1, text.length)));
  const shortPiece = fc.oneof(fc.constantFrom(...added), randomText);
  // Words, runs of one character, runs without a space: long parts, long pieces, and many short ones.
  const longPiece = fc.oneof(randomText, fc.constantFrom("a", " ", "\n", "7", "字", "😀", "e\u0301", "ab1 ", ...added)).map(repeat); // prettier-ignore
  const pieces = fc.array(
    fc.record({ text: fc.oneof({ arbitrary: shortPiece, weight: 5 }, longPiece), isLiteral: fc.boolean() }),
    { minLength: 1, maxLength: 6 },
  );

  test("is encodeLiteral(), and others may encode between two steps", () => {
    fc.assert(
      fc.property(pieces, longPiece, (given, last) => {
        const literal: TextRange[] = [];
        let text = "";
        for (const piece of [...given, { text: last, isLiteral: false }]) {
          const start = text.length;
          text += piece.text;
          if (piece.isLiteral && text.length > start) literal.push({ start, end: text.length });
        }
        const expected = tokenizer.encodeLiteral(text, literal);
        const steps = tokenizer.encodeInSteps!(text, literal);
        let step = steps.next();
        for (; step.done !== true; step = steps.next()) tokenizer.encode("something else");
        expect(step.value).toEqual(expected);
      }),
      { seed: 53, numRuns: 8 },
    );
  });
});

describe("the work of encoding grows with the text", async () => {
  const tokenizer = await ownTokenizer("qwen");
  const texts: Readonly<Record<string, (size: number) => string>> = {
    words: (size) => "some words, and 17 more.\n".repeat(size / 25),
    "one letter": (size) => "a".repeat(size),
    "letters without a space": (size) => "abcdefghijklmnopqrstuvwxyz".repeat(size / 26),
    spaces: (size) => " ".repeat(size),
    "beyond the basic plane": (size) => "😀".repeat(size / 2),
    "control tokens": (size) => "<|im_end|>".repeat(size / 10),
    "half control tokens": (size) => "<|im_end".repeat(size / 8),
  };
  test.each(Object.keys(texts))("%s, literal or not", async (kind) => {
    await expectLinear(20_000, (size) => {
      const text = texts[kind]!(size);
      tokenizer.encodeLiteral(text, [{ start: 0, end: text.length }]);
      tokenizer.encode(text);
    });
  });

  test("many literal ranges between control tokens", async () => {
    await expectLinear(1000, (count) => {
      const message = "<|im_start|>user\nhi <|im_end|> there<|im_end|>\n";
      const literal = Array.from({ length: count }, (_, place) => ({
        start: place * message.length + 17,
        end: place * message.length + 36,
      }));
      const { spelledTokens } = tokenizer.encodeLiteral(message.repeat(count), literal);
      expect(spelledTokens).toBe(count);
    });
  });

  test("many literal ranges in text that a normalizer changes", async () => {
    const flags = await ownTokenizer("flags");
    await expectLinear(500, (count) => {
      const literal = Array.from({ length: count }, (_, place) => ({ start: place * 4, end: place * 4 + 3 }));
      finish(flags.encodeInSteps!("ae\u0301 ".repeat(count), literal));
    });
  });
});
