// SentencePiece-like BPE with byte tokens, against the output of Hugging Face tokenizers for the
// same definitions (recorded: see the first line of fixtures/byte-fallback-definitions.jsonl).

import { readFileSync } from "node:fs";

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import type { Tokenizer } from "../core/index.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { createTokenizer } from "./create-tokenizer.ts";
import type { Encoding } from "./fixtures.test-helper.ts";
import { randomText } from "./random-text.test-helper.ts";

type Json = Record<string, unknown>;

function readLines(name: string): Json[] {
  const text = readFileSync(new URL(`./fixtures/${name}`, import.meta.url), "utf8");
  return text.trimEnd().split("\n").map((line) => JSON.parse(line) as Json); // prettier-ignore
}

const lines = readLines("byte-fallback-definitions.jsonl");
const base = lines.find((line) => "base" in line)?.["base"] as Json;
const variants = lines.filter((line) => "variant" in line).map((line) => line["variant"] as string);
const encodings = readLines("byte-fallback-encodings.jsonl") as unknown as readonly Encoding[];

async function load(name: string): Promise<Tokenizer> {
  const patch = lines.find((line) => line["variant"] === name)?.["patch"] as Json;
  const tokenizerJson = { ...structuredClone(base), ...patch };
  return createTokenizer(name, { tokenizerJson, tokenizerConfig: null });
}

function pushed(tokenizer: Tokenizer, ids: ArrayLike<number>): string[] {
  const decoder = tokenizer.startDecoding();
  return [...Array.from(ids, (id) => decoder.push(id)), decoder.finish()];
}

describe.each(variants)("byte fallback as in %s", async (name) => {
  const tokenizer = await load(name);
  const records = encodings.filter(({ definition }) => definition === name);

  test("every text has the ids, and decodes to the text, that Hugging Face tokenizers gives", () => {
    expect(tokenizer).not.toBeInstanceOf(ByteLevelBpe);
    const texts = records.filter(({ text }) => text !== null);
    expect(texts.length).toBe(55);
    for (const record of texts) {
      const ids = [...tokenizer.encode(record.text ?? "")];
      const decoded = tokenizer.decode(ids);
      expect({ ...record, ids, decoded, decoded_skip_special: tokenizer.decode(ids, { skipSpecialTokens: true }) }).toEqual(record); // prettier-ignore
    }
  });

  test("lists of ids decode as there, runs of bytes that are not characters too", () => {
    const lists = records.filter(({ text }) => text === null);
    expect(lists.some(({ decoded }) => decoded.includes("\ufffd"))).toBe(true);
    for (const { ids, decoded } of lists) expect(tokenizer.decode(ids)).toBe(decoded);
  });

  test("one by one, ids decode to what they decode to at once, and no character is ever split", () => {
    const ids = fc.array(fc.oneof(fc.nat({ max: tokenizer.vocabularySize - 1 }), fc.integer({ min: 130, max: 258 })), { maxLength: 12 }); // prettier-ignore
    const encoded = randomText.map((text) => [...tokenizer.encode(text)]);
    fc.assert(
      fc.property(fc.oneof(ids, encoded), (list) => {
        const pieces = pushed(tokenizer, list);
        const whole = tokenizer.decode(list);
        expect(pieces.join("")).toBe(whole);
        for (const piece of pieces) expect(piece).not.toMatch(/\p{Surrogate}/u);
      }),
      { seed: 12, numRuns: 150 },
    );
  });
});
