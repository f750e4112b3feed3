import { describe, expect, test } from "vitest";
import { Grep } from "./grep.ts";

/** Scores of the documents that a pattern matches, by their index. */
function scores(texts: readonly string[], pattern: string): Record<number, number> {
  return Object.fromEntries(new Grep(texts).search(pattern, 10).map(({ index, score }) => [index, score]));
}

describe("Grep", () => {
  test.each([
    // Results of `len(re.findall(pattern, text, re.IGNORECASE))` in CPython 3.12.
    ["fee", "Fee, fees, FEE", 3],
    ["credit.*card", "credit card\ncredit\ncard", 1],
    ["a*", "baac", 4],
    ["|a", "a", 3],
    ["a??", "aa", 5],
    ["\\$\\d+(?:\\.\\d\\d)?", "$5 and $6.20", 2],
    ["(?P<n>a)b", "ab AB", 2],
    ["^a", "a\na", 1],
    ["(?m)^a", "a\na", 2],
    ["a$", "a\na\n", 1],
    ["a\\Z", "a\na\n", 0],
    ["(?s)a.b", "a\nb", 1],
    ["(?x) a b # both", "ab a b", 1],
    ["[]a]", "]a", 2],
    ["[^\\W\\d]", "a1_-", 2],
    ["\\bfee\\b", "fee fees éfee", 1],
    ["(?<=\\$)\\d", "$5 6", 1],
    ["a{,2}b", "aaab", 1],
    ["a{,", "a{,a{", 1],
  ])("counts the matches of %j in %j as Python does", (pattern, text, count) => {
    expect(scores([text], pattern)).toEqual(count === 0 ? {} : { 0: count });
  });

  test.each([
    "(",
    "a)",
    "*",
    "a**",
    "[z-a]",
    "\\q",
    "a{2,1}",
    "(?<=a+)b",
    "a(?i)b",
    "(?P<n>a)(?P<n>b)",
    "\\1",
    "[a",
    "\\N",
    "(?(1)a)",
  ])("takes %j, which is no pattern, literally", (pattern) => {
    expect(scores([`x ${pattern} y`, "x"], pattern)).toEqual({ 0: 1 });
  });

  test.each([
    ["(a)\\1", "it refers back to a group"],
    ["a++", "it has a possessive repetition"],
    ["(?>a)b", "it has an atomic group"],
    ["(a)(?(1)b)", "it depends on a group"],
    ["(?-i:a)", "a part of it does not ignore case"],
    ["a".repeat(1001), "it is too long"],
    ["(?:a{0,100}){100}", "it is too large"],
  ])("refuses %j: %s", (pattern, reason) => {
    expect(() => scores(["a"], pattern)).toThrow(`Cannot search for this pattern: ${reason}; use a simpler one.`);
  });

  test("ranks by the number of matches, and equal ones in their order", () => {
    const hits = new Grep(["fee", "no", "fee fee", "fee"]).search("fee", 3);
    expect(hits).toEqual([
      { index: 2, score: 2 },
      { index: 0, score: 1 },
      { index: 3, score: 1 },
    ]);
  });

  test("searches all documents within one number of steps", () => {
    const texts = Array.from({ length: 700 }, (_, at) => `${"a fee of a card, ".repeat(70)}${at}`);
    const slow = "(?:^|$|\\b|a){1,5}";
    expect(scores(texts.slice(0, 3), slow)).toHaveProperty("2");
    expect(() => scores(texts, slow)).toThrow("Cannot search for this pattern: it takes too long; use a simpler one.");
    // Bounded repetitions cost as much as the ways in which they may end.
    expect(() => scores(texts, ".{0,50}.{0,50}[xz]")).toThrow("it takes too long");
    for (const usual of [".*fee.*", "fee.*card", "(?=.*card)(?=.*fee).*", "\\w+\\s+\\w+"]) {
      expect(Object.keys(scores(texts, usual))).toHaveLength(10);
    }
    // The budget is that of one search.
    const limits = { tests: 0, steps: 4000 };
    const grep = new Grep(texts.slice(0, 1), limits);
    for (let times = 0; times < 5; times++) expect(grep.search("fee", 1)).toEqual([{ index: 0, score: 70 }]);
    expect(() => new Grep(texts, limits).search("fee", 1)).toThrow("it takes too long");
  });

  test.each(["(a+)+$", "(a|a)*b", "(.*)*x", "([^]*a){12}b", "(a?){40}a{40}b"])(
    "searches with %j, which may take exponential time, in bounded work",
    (pattern) => {
      const text = `${"a".repeat(5000)}!`;
      const search = (): unknown => scores([text], pattern);
      // Exponential work would not end; linear work ends, or is refused.
      try {
        expect(search()).toBeTypeOf("object");
      } catch (error) {
        expect(String(error)).toContain("it takes too long");
      }
    },
  );
});
