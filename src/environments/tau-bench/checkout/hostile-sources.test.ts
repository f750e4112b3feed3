import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { ConfigurationError } from "../../../core/index.ts";
import type { PythonSource } from "../../checkout/python-source.ts";
import { parseSource } from "./read-checkout.ts";
import { readRules, readTasks, readToolList, readToolSchema } from "./read-sources.ts";
import { readUserPromptContents } from "./user-prompts.ts";
import { rulesSource, tasksSource, toolListSource, toolSource, userSourceText } from "./small-checkout.test-helper.ts";

const readers: readonly (readonly [string, string, (source: PythonSource) => unknown])[] = [
  ["tasks", tasksSource, (source) => readTasks(source, "TASKS_TEST")],
  ["tool list", toolListSource, readToolList],
  ["tool", toolSource, (source) => readToolSchema(source, "Mend")],
  ["rules", rulesSource, readRules],
  ["user", userSourceText, readUserPromptContents],
];

const pieces = `
  " ' \\ { } [ ] ( ) = , : ; . # * @ + - """ ''' \\N{ \\u \\x f' rb" ** 0x 1e lambda: Task( Action( import *
  return def class if else is None self.messages prompt __import__('os').abort()
`
  .split(" ")
  .concat("\n", "\t", "\0", "\r", "\ufeff", "\ud800", "\n    ", " if x is None else ", "def get_info(): ")
  .concat("9".repeat(5000), "[".repeat(5000), "(".repeat(90), ")".repeat(90));

/** Replaces a part of a text by another text. */
const edit = fc.record({
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  length: fc.oneof(fc.constant(0), fc.nat({ max: 5 }), fc.nat({ max: 2000 })),
  insert: fc.oneof(fc.constantFrom("", ...pieces), fc.string({ unit: "binary", maxLength: 8 })),
});

const change = (text: string, edits: readonly { at: number; length: number; insert: string }[]): string =>
  edits.reduce((current, { at, length, insert }) => {
    const position = Math.floor(at * current.length);
    return current.slice(0, position) + insert + current.slice(position + length);
  }, text);

describe("a changed source", () => {
  it.each(readers)("of kind %s is read, or refused with file and line, and nothing else", (_kind, text, read) => {
    let refused = 0;
    fc.assert(
      fc.property(fc.array(edit, { minLength: 1, maxLength: 4 }), (edits) => {
        try {
          read(parseSource("changed.py", change(text, edits)));
        } catch (error) {
          expect(error).toBeInstanceOf(ConfigurationError);
          expect(String(error)).toMatch(/Cannot read "changed\.py", line [1-9]\d*: /);
          refused += 1;
        }
      }),
      { seed: 7, numRuns: 500 },
    );
    expect(refused).toBeGreaterThan(100);
  });

  it.each(readers)("of kind %s is never read when it is cut off", (_kind, text, read) => {
    // A cut after the last relevant statement would lose nothing.
    for (let length = 0; length < text.trimEnd().length; length += 7) {
      let value: unknown = null;
      try {
        value = read(parseSource("cut.py", text.slice(0, length)));
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigurationError);
      }
      if (value !== null) expect(value).toEqual(read(parseSource("whole.py", text)));
    }
  });

  it("of any text at all is read or refused", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 300 }), (text) => {
        for (const [, , read] of readers) {
          expect(() => read(parseSource("any.py", text))).toThrow(/^Cannot read "any\.py", line [1-9]\d*: /);
        }
      }),
      { seed: 7, numRuns: 200 },
    );
  });

  it("is refused at once when it is large beyond reason", () => {
    expect(() => parseSource("large.py", "x".repeat(1_000_001))).toThrow("1000000 is the most");
  });
});
