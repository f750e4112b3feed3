// A tokenizer without a file, for tests, docs and the embedded demo: common words, JSON and the ChatML markers are one
// token each, everything else one token per byte, so that a dump of tokens reads like text. Real byte-level code
// underneath, no learned merges: what a token is can be told by looking. Not a vocabulary to train a model on.

import type { Tokenizer } from "../core/index.ts";
import type { AddedToken } from "./added-tokens.ts";
import { ByteLevelBpe } from "./byte-level-bpe.ts";
import { ByteTable } from "./byte-table.ts";
import { MergeTable } from "./merge-table.ts";
import { readablePunctuation, readableWords } from "./readable-words.ts";

const specialTexts = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
const markerTexts = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"];
const contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d"];
const byteCount = 256;

/**
 * Makes the readable tokenizer. Ids below 256 are bytes, then come `<|endoftext|>`, `<|im_start|>`, `<|im_end|>` (special)
 * and the tool and think markers (not special), then words and punctuation. The same in every process;
 * `decode(encode(text))` is `text` for every well-formed text.
 *
 * @example
 * const tokenizer = createReadableTokenizer();
 * const ids = tokenizer.encode('{"name": "find_order"}');
 * const pieces = Array.from(ids, (id) => tokenizer.decode([id]));
 */
export function createReadableTokenizer(): Tokenizer {
  const addedTokens = [...specialTexts, ...markerTexts].map((content, index) => ({
    ...plainToken,
    id: byteCount + index,
    content,
    special: index < specialTexts.length,
  }));
  const texts = [...addedTokens.map((token) => token.content), ...ordinaryTexts()];
  const tokens = new ByteTable(byteCount + texts.length);
  for (let byte = 0; byte < byteCount; byte++) tokens.add(byte, Uint8Array.of(byte), 0, 1);
  const encoder = new TextEncoder();
  texts.forEach((text, index) => {
    const bytes = encoder.encode(text);
    tokens.add(byteCount + index, bytes, 0, bytes.length);
  });
  return new ByteLevelBpe("readable", {
    tokens,
    merges: new MergeTable(0),
    ignoreMerges: true,
    normalForms: [],
    steps: [{ pattern: piecePattern(), keep: "both" }],
    addedTokens,
  });
}

const plainToken: AddedToken = {
  id: 0,
  content: "",
  singleWord: false,
  lstrip: false,
  rstrip: false,
  normalized: false,
  special: false,
};

/** Every text that is one token, in the order of ids. */
function ordinaryTexts(): Set<string> {
  const texts = new Set<string>();
  for (const word of readableWords) {
    const capitalized = word.charAt(0).toUpperCase() + word.slice(1);
    for (const form of [word, ` ${word}`, capitalized, ` ${capitalized}`, `_${word}`]) {
      if (form.length > 1) texts.add(form);
    }
  }
  for (const piece of readablePunctuation) texts.add(piece);
  for (const piece of contractions) texts.add(piece);
  return texts;
}

/** Punctuation first, the longest that fits; then words with the space or underscore before them; then single characters. */
function piecePattern(): RegExp {
  const punctuation = [...readablePunctuation]
    .sort((a, b) => b.length - a.length)
    .map((piece) => piece.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  const contraction = `(?:${contractions.join("|")})(?!\\p{L})`;
  return new RegExp(`${punctuation.join("|")}|${contraction}|[ _]?\\p{L}+|\\s+(?!\\S)|[^]`, "uy");
}
