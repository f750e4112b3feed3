// Random strings that are hard for tokenizers: markers inside words, every kind of white space,
// marks that normalizing moves, emoji sequences, other scripts, control characters.

import fc from "fast-check";

const snippets = [
  "<|im_start|>", "<|im_end|>", "<|im_", "<think>", "</think>", "<tool_call>", "The order", " of ", "Customers'", "'s", "'S", "'ſ",
  "'ll", "'RE", "don't", "1", "12345", "٣", "²", "Ⅷ", "  ", "     ", "\t", "\n", "\r\n", "\n\n\n", " \n ", "\u00a0", "\u0085",
  "\u3000", "\u2028", "\u200d", "\u0000", "\u0007", "\u007f", "\ufffd", "é", "e\u0301", "q\u0323\u0307", "\u0301", "Å", "\u212b",
  "ﬁ", "ß", "K", "\u212a", "日本語", "カタカナ", "한국", "ㅎㅏㄴ", "ไทย", "हिन्दी", "العربية", "עברית", "Привет", "👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "𝒳",
  '{"name": "get_order", "arguments": {}}', "//", "...", "!?\n\n", "#W1042", "snake_case", "camelCase", "HTTPServer", "aaaaaaaa", "====",
] as const; // prettier-ignore

/**
 * Excludes unassigned characters: engines disagree about those that a newer Unicode has since
 * assigned.
 */
const assigned = fc.integer({ min: 0, max: 0x1ffff }).map((code) => {
  const character = code >= 0xd800 && code < 0xe000 ? "\ud55c" : String.fromCodePoint(code);
  return /\p{Assigned}/u.test(character) && !isRecent(code) ? character : "x";
});

/**
 * Blocks that Unicode 16 and 17 have changed, and U+FEFF, which only JavaScript takes for white
 * space.
 */
function isRecent(code: number): boolean {
  return code === 0xfeff || (code >= 0x1ac0 && code < 0x1b00) || code >= 0x10900;
}

/** Well-formed text. */
export const randomText: fc.Arbitrary<string> = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom(...snippets) },
      { weight: 2, arbitrary: fc.string({ unit: "grapheme-ascii", maxLength: 8 }) },
      { weight: 2, arbitrary: assigned },
    ),
    { maxLength: 16 },
  )
  .map((parts) => parts.join(""));

/** Text that may hold halves of surrogate pairs. */
export const brokenText: fc.Arbitrary<string> = fc
  .array(fc.oneof(randomText, fc.constantFrom("\ud83d", "\udc4d", "\ud800", "\udfff")), { maxLength: 6 })
  .map((parts) => parts.join(""));
