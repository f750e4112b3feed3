import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { linearPattern } from "./linear-pattern.ts";
import { UnreadPatternError } from "./parse-pattern.ts";
import { pattern, text } from "./random-pattern.test-helper.ts";

describe("linearPattern()", () => {
  it("answers as RegExp does", () => {
    fc.assert(
      fc.property(
        pattern,
        fc.array(text, { minLength: 1, maxLength: 8 }),
        fc.constantFrom<"" | "u">("", "u"),
        (source, texts, flags) => {
          fc.pre(source.split("(?<name>").length <= 2);
          const linear = linearPattern(source, flags);
          const native = new RegExp(source, flags);
          // Characters of two UTF-16 units are tested below, because V8's lookbehind also tests
          // positions between the units.
          for (const one of texts) expect([one, linear.test(one)]).toEqual([one, native.test(one)]);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it.each([
    ["^#W\\d+$", "#W12", true],
    ["^\\d{4}-\\d{2}-\\d{2}$", "2026-11-27", true],
    ["^(?=.*[A-Z])(?=.*\\d).{8,}$", "Password1", true],
    ["^(?=.*[A-Z])(?=.*\\d).{8,}$", "password1", false],
    ["^[\\w.+-]+@[\\w-]+(\\.[\\w-]+)+$", "a.b@c.example", true],
    ["^\\p{Lu}\\p{Ll}*$", "Émile", true],
    ["^.$", "😀", true],
    ["^.{0,100000}$", "x".repeat(100_000), true],
    ["^[^]{2,3}x{2$", "abx{2", true],
  ])("%s", (source, tested, isMatch) => {
    expect(linearPattern(source, source.includes("{2$") ? "" : "u").test(tested)).toBe(isMatch);
  });

  it.each(["^(a+)+$", "^(a|a)*b", "(x+x+)+y", "^(?:a?){30}a{30}$", "^(?!(a+)+$)b", "(?<=(a+)+)b"])(
    "decides %s in linear time",
    (source) => {
      const start = performance.now();
      linearPattern(source, "u").test(`${"a".repeat(20_000)}!`);
      expect(performance.now() - start).toBeLessThan(1000);
    },
  );

  it.each(["(a)\\1", "(?<n>a)\\k<n>", "(ab){1,100000}", "(?:){1000000}", "(".repeat(3000) + ")".repeat(3000)])(
    "does not read %.40s",
    (source) => expect(() => linearPattern(source, "")).toThrow(UnreadPatternError),
  );

  it("throws as RegExp does, and knows nothing of a text that would take too long", () => {
    expect(() => linearPattern("(", "")).toThrow(SyntaxError);
    expect(linearPattern("^(?:a|b|c|d|e|f)*(?:a|b|c|d|e|f)*$", "").test("a".repeat(1_000_000))).toBe(null);
  });
});
