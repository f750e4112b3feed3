// Tokenizers for families whose own is not available: one token per byte, or the small ChatML
// vocabulary, plus the family's markers. A renderer's promises about tokens can be proven with
// them, as they hold for any vocabulary.

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { sharedFolder } from "../../tests/conformance/shared-folder.ts";
import type { Tokenizer } from "../core/index.ts";
import { createTokenizer } from "../tokenizers/index.ts";

/** One token per byte and one per marker. */
export async function byteTokenizer(markers: readonly string[]): Promise<Tokenizer> {
  const vocabulary = Object.fromEntries(byteCharacters().map((character, byte) => [character, byte]));
  const tokenizerJson = {
    version: "1.0",
    added_tokens: addedTokens(markers, 256),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    post_processor: null,
    decoder: { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
    model: { type: "BPE", vocab: vocabulary, merges: [], ignore_merges: false },
  };
  return createTokenizer("bytes", { tokenizerJson, tokenizerConfig: null });
}

/**
 * The small ChatML vocabulary with its merges, plus one token per marker; `null` without ../shared.
 */
export async function mergingTokenizer(markers: readonly string[]): Promise<Tokenizer | null> {
  const folder = sharedFolder("models", "tiny-chatml");
  if (folder === null) return null;
  const tokenizerJson = JSON.parse(readFileSync(join(folder, "tokenizer.json"), "utf8")) as {
    added_tokens: { id: number; content: string }[];
    model: { vocab: Record<string, number> };
  };
  const known = new Set(tokenizerJson.added_tokens.map(({ content }) => content));
  const ids = [...tokenizerJson.added_tokens.map(({ id }) => id), ...Object.values(tokenizerJson.model.vocab)];
  const missing = markers.filter((marker) => !known.has(marker));
  const added_tokens = [...tokenizerJson.added_tokens, ...addedTokens(missing, Math.max(...ids) + 1)];
  return createTokenizer("merging", { tokenizerJson: { ...tokenizerJson, added_tokens }, tokenizerConfig: null });
}

function addedTokens(markers: readonly string[], firstId: number): { id: number; content: string }[] {
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return [...new Set(markers)].map((content, index) => ({ id: firstId + index, content, ...flags }));
}

/** The characters that byte-level vocabularies write bytes with, in the order of bytes. */
function byteCharacters(): string[] {
  const isShown = (byte: number): boolean =>
    (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isShown(byte) ? byte : next++));
}
