// Nothing vanishes: text that opens a call becomes a call or a problem, no matter what follows the
// opening.

import { expect, it } from "vitest";

import { createRandom, deriveSeed, type Random } from "../lib/random.ts";
import { exampleTools as tools, formatExamples } from "./formats/format-examples.test-helper.ts";
import { spelledCall, toolCallParser, toolCallParserNames } from "./index.ts";

const pieces = [
  ...Object.values(formatExamples).flatMap(([whole]) => whole.match(/<[^<>]*>|\w+|\s+|[^\w\s]/gu) ?? []),
  ...["\u0000", "\ud800", "9".repeat(400), "{}", "null", "</", "Rome, perhaps.", "\n\n", "```json\n"],
];

/** Beginnings of a call: all text before the tool's name, and the opening of each part of it. */
function openingsOf(name: string): readonly string[] {
  const parser = toolCallParser(name);
  const [before = ""] = (spelledCall(name, "get_weather") ?? "").split("get_weather");
  const parts = Object.keys(parser.hints.nesting).filter((opening) => !opening.includes("```"));
  // Excludes openings that are not specific to calls: the bracket of Python calls opens many other
  // texts, as a JSON list does, every message of inkling opens alike, and beam's calls open with a
  // word.
  const shared = ["<|message_model|>", " to=", '[{"name": "'];
  const isOwn = (opening: string): boolean => opening.length > 1 && !shared.includes(opening);
  return [...new Set([before, ...parts])].filter(isOwn);
}

function randomTail(random: Random): string {
  return Array.from({ length: random.integer(8) }, () => random.pick(pieces)).join("");
}

const parsersWithOpenings = toolCallParserNames.filter((name) => openingsOf(name).length > 0);

it("an opening is known of every format but those of bare Python calls and lists", () => {
  const without = toolCallParserNames.filter((name) => !parsersWithOpenings.includes(name));
  expect(without).toEqual(["llama4_pythonic", "pythonic", "xlam"]);
});

it.each(parsersWithOpenings)("%s: an opening and any text behind it yield a call or a problem", (name) => {
  const parser = toolCallParser(name);
  const random = createRandom(deriveSeed(7, name));
  for (const opening of openingsOf(name)) {
    for (let count = 0; count < 150; count++) {
      const text = random.pick(["", "Well.\n", "<think>"]) + opening + randomTail(random);
      const { calls, problems } = parser.parse(text, { tools });
      if (calls.length + problems.length === 0) expect.fail(`nothing comes of ${JSON.stringify(text)}`);
    }
  }
});

it("text without an opening has no problem", () => {
  for (const name of toolCallParserNames) {
    for (const text of ["Your order ships today.", '```json\n{"city": "Rome"}\n```', "a < b, [1] and {}", "</b>"]) {
      expect([name, toolCallParser(name).parse(text, { tools }).problems]).toEqual([name, []]);
    }
  }
});
