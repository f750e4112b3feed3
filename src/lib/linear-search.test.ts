import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { LinearSearch, SlowSearchError } from "./linear-search.ts";
import { parsePattern, type PatternNode } from "./parse-pattern.ts";
import { pattern, text } from "./random-pattern.test-helper.ts";

const searchFor = (source: string): LinearSearch => new LinearSearch(parsePattern(source, "u"));

function nativeFind(source: string, searched: string, from: number) {
  const native = new RegExp(source, "gu");
  native.lastIndex = from;
  const found = native.exec(searched);
  return found === null ? null : { start: found.index, end: found.index + found[0].length };
}

function mayBeEmpty(node: PatternNode): boolean {
  if (node.type === "sequence") return node.parts.every(mayBeEmpty);
  if (node.type === "choice") return node.options.some(mayBeEmpty);
  if (node.type === "repeat") return node.min === 0 || mayBeEmpty(node.body);
  return node.type === "group" ? mayBeEmpty(node.body) : node.type !== "set";
}

/** True if a repetition of limited length may repeat nothing; Python and JavaScript differ there. */
function repeatsNothing(node: PatternNode): boolean {
  if (node.type === "sequence") return node.parts.some(repeatsNothing);
  if (node.type === "choice") return node.options.some(repeatsNothing);
  if (node.type === "set" || node.type === "edge") return false;
  const isLimited = node.type === "repeat" && node.max !== Infinity && node.max > node.min;
  return (isLimited && mayBeEmpty(node.body)) || repeatsNothing(node.body);
}

const bare = (found: { readonly start: number; readonly end: number } | null) =>
  found === null ? null : { start: found.start, end: found.end };

describe("LinearSearch", () => {
  it("finds the matches that RegExp finds, from any position, one search for all texts", () => {
    fc.assert(
      fc.property(pattern, fc.array(text, { minLength: 1, maxLength: 6 }), (source, texts) => {
        fc.pre(source.split("(?<name>").length <= 2 && !repeatsNothing(parsePattern(source, "u")));
        const search = searchFor(source);
        for (const one of texts) {
          for (let from = 0; from <= one.length; from++) {
            expect([one, from, bare(search.find(one, from))]).toEqual([one, from, nativeFind(source, one, from)]);
          }
        }
      }),
      { numRuns: 3000 },
    );
  });

  it("finds where more text may complete a match", () => {
    const extensions = ["a", "b", "-", "1", "ab", "ba", "aa", "bb", "a1", "b-"];
    fc.assert(
      fc.property(pattern, text, (source, one) => {
        fc.pre(!/[\^$]|\\[bB]|\?[=!]|\?<[=!]/.test(source) && source.split("(?<name>").length <= 2);
        const whole = new RegExp(`^(?:${source})$`, "u");
        const completed = Array.from({ length: one.length }, (_, at) => at).find((at) =>
          extensions.some((added) => whole.test(one.slice(at) + added)),
        );
        const cut = searchFor(source).findCut(one, 0);
        if (completed !== undefined) expect(cut).toBeLessThanOrEqual(completed);
      }),
      { numRuns: 1000 },
    );
  });

  it.each([
    ["<call name=[^>]*>", "a <call na", 2],
    ["<call name=[^>]*>", "a <call name=x> b", null],
    ["</call>|$", "a </ca", 2],
    ["a(?=bc)", "xab", 1],
    ["a(?!bc)", "xab", null],
    ["x{3}", "axx", 1],
    ["😀+!", "a😀😀", 1],
  ])("%s in %j: a match may begin at %j", (source, one, start) => {
    const search = searchFor(source);
    const at = search.findCut(one, 0);
    // At the end of the text every match may begin.
    expect(at === one.length ? null : at).toBe(start);
  });

  it("has the text of named groups, of the last passage of a repeated one", () => {
    const { captures, start, end } = searchFor(
      "<(?<tag>\\w+) (?:(?<key>\\w+)=(?<value>[^ >]*) ?)*(?:/(?<end>x))?>",
    ).find("ab <call a=1 b=😀>", 0)!;
    expect([start, end]).toEqual([3, 18]);
    expect(captures).toEqual(new Map([["tag", "call"], ["key", "b"], ["value", "😀"]])); // prettier-ignore
    expect(searchFor("(?<=(?<before>a+))b").find("aab", 0)).toMatchObject({ start: 2 });
  });

  // Natively, each of these takes minutes or longer for 60 kB.
  it.each([
    ["(a+)+!", "a"],
    ["<a.*?b", "<a"],
    ["<call name=(?<name>[^>]+)>", "<call name="],
    ["\\s*x", " "],
    ["(?:(?<key>\\w+)\\s*)*:", "ab "],
  ])("searches %s in a long text", (source, part) => {
    const long = part.repeat(60_000 / part.length);
    const search = searchFor(source.replace(".", "[^]"));
    expect(search.find(long, 0)).toBe(null);
    expect(search.findCut(long, 0)).toBe(0);
  });

  it("searches one text any number of times", () => {
    const search = searchFor("<end>\\s*(?=\\n?<|$)|$");
    const long = "<end>".repeat(2000);
    for (let times = 0; times < 60; times++) {
      let found = 0;
      for (let at = 0; at < long.length; found++) at = search.find(long, at)!.end;
      expect(found).toBe(2000);
    }
  });

  it("stops at the last step of a budget that searches and texts share", () => {
    const budget = { steps: 1000 };
    const one = new LinearSearch(parsePattern("a+b", "u"), { budget });
    const other = new LinearSearch(parsePattern("(?:^|$|\\b|a){1,5}", "u"), { budget });
    expect(one.find("aab", 0)).toMatchObject({ start: 0, end: 3 });
    const left = budget.steps;
    expect(left).toBeGreaterThan(980);
    expect(other.find("aab", 0)).toMatchObject({ start: 0, end: 0 });
    expect(budget.steps).toBeLessThan(left);
    expect(() => one.find("a".repeat(10_000), 0)).toThrow(SlowSearchError);
    expect(budget.steps).toBe(-1);
    expect(() => other.find("a", 0)).toThrow(SlowSearchError);
  });

  it("counts empty matches whose paths visit many states", () => {
    const search = searchFor(`(?:${"(?:^|$|\\b|\\B)".repeat(100)}){3}`);
    const long = "ab ".repeat(10_000);
    const findAll = (): void => {
      for (let at = 0; at < long.length; at++) search.matchAt(long, at);
    };
    expect(findAll).toThrow(SlowSearchError);
  });

  it("finds a lookaround once, however many positions see it", () => {
    const budget = { steps: 400_000 };
    const search = new LinearSearch(parsePattern("(?=.*b)(?=.*c)x", "u"), { budget });
    expect(search.find(`${"a".repeat(20_000)}bc`, 0)).toBe(null);
    expect(search.find(`${"x".repeat(20_000)}bc`, 1)).toMatchObject({ start: 1, end: 2 });
    const failing = new LinearSearch(parsePattern("(?=.*b)(?=.*c)[^]y", "u"), { budget: { steps: 600_000 } });
    expect(failing.find(`${"a".repeat(20_000)}bc`, 0)).toBe(null);
  });

  it("refuses a text that would take too long, and goes on with the next one", () => {
    const search = searchFor(`(?:${"(?:a?b?c?d?){8}|".repeat(40)}x)*!`);
    expect(() => search.find("abcd".repeat(5_000), 0)).toThrow(SlowSearchError);
    expect(search.find("abcd!", 0)).toMatchObject({ start: 0, end: 5 });
  });
});
