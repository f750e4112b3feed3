// Random regular expressions, and texts that they often match.

import fc from "fast-check";

/** Patterns of few characters, so that random strings often match. */
export const pattern: fc.Arbitrary<string> = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constantFrom(
      "a",
      "b",
      ".",
      "[ab]",
      "[^a]",
      "\\w",
      "\\d",
      "\\s",
      "^",
      "$",
      "\\b",
      "\\B",
      "\\x61",
      "é",
      "-",
      "\\.",
      "[]",
      "[^]",
    ),
    fc.tuple(tie("node"), tie("node")).map(([left, right]) => left + right),
    fc.tuple(tie("node"), tie("node")).map(([left, right]) => `(?:${left}|${right})`),
    fc
      .tuple(tie("node"), fc.constantFrom("*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "+?", "{2,3}?"))
      .map(([body, quantifier]) => `(${body})${quantifier}`),
    fc
      .tuple(fc.constantFrom("?=", "?!", "?<=", "?<!", "?<name>"), tie("node"))
      .map(([kind, body]) => `(${kind}${body})`),
  ),
})).node;
export const text = fc.string({
  unit: fc.constantFrom("a", "b", "-", ".", " ", "1", "\n", "é"),
  maxLength: 8,
});
