import { describe, expect, test } from "vitest";

import { translatePattern, UnsupportedPattern } from "./split-pattern.ts";

function matches(pattern: string, text: string): boolean {
  return translatePattern(pattern).test(text);
}

describe("translatePattern()", () => {
  test.each([
    ["(?i:'s|'K)", "'S", true],
    ["(?i:'s|'K)", "'ſ", true],
    ["(?i:'s|'K)", "'\u212a", true],
    ["(?i:'s|'K)", "'x", false],
    ["\\s", "\u0085", true],
    ["\\s", "\ufeff", false],
    ["[^\\s]", "\ufeff", true],
    ["\\S", "\u0085", false],
    ["\\d", "٣", true],
    ["\\d", "²", false],
    [".", "\r", true],
    [".", "\n", false],
    [".", "😀", true],
    ["\\p{Han}", "語", true],
    ["\\P{L}", "1", true],
    ["[!\\-\\]^_`{|}~]", "|", true],
    ["[a-c-]", "-", true],
    ["[-a]", "-", true],
    ["/-&#", "/-&#", true],
  ])("%s on %j: %s", (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected);
  });

  test.each([
    "a++", "a{2}?", "a{2}+", "(?>a)", "(?<=a)b", "\\w", "\\h", "\\b", "^a", "a$", "[a&&b]", "[[:alpha:]]", "(?i:ss)", "(?i:fi)", "(?i:é)",
    "(?i:[a-z])", "(?i:s+)", "(?i:\\p{Lu})", "\\p{Emoji}", "\\p{^L}", "a{,3}", "(a", "a)", "[a", "a\\", "*", "[]", "\\1", "\\x41",
  ])("%s is refused, because engines differ or nobody uses it", (pattern) => {
    expect(() => translatePattern(pattern)).toThrow(UnsupportedPattern);
  }); // prettier-ignore
});
