import { expect, test } from "vitest";
import { mentions, textTable } from "./text.ts";

test.each([
  ["You get $12 back.", "$12", true],
  ["You get $120 back.", "$12", false],
  ["You get $12.50 back.", "$12", true],
  ["It costs US$12", "$12", true],
  ["order #w1042, please", "#W1042", true],
  ["order #W10421", "#W1042", false],
  ["in 13 days, not in 3 days", "3 days", true],
  ["in 13 days", "3 days", false],
  ["it is unsigned", "signed", false],
  ["Écoute", "coute", false],
  ["anything", "", false],
])("mentions() of %j and %j is %s", (words, thing, expected) => {
  expect(mentions(words, thing)).toBe(expected);
});

test("textTable() fits its width: between words first, then without the middles of long words", () => {
  expect(
    textTable("id | >n | what it says of the whole", [["one", "1", "a sentence that is rather long for a cell"]], 30),
  ).toEqual([
    "id   n  what it says of the",
    "        whole",
    "one  1  a sentence that is",
    "        rather long for a cell",
  ]);
  expect(textTable("id | note", [["abcdefghijklmnopqrstuvwxyz:0001", "short"]], 24)).toEqual([
    "id                 note",
    "abcdef…uvwxyz:0001 short",
  ]);
});

test("textTable() aligns columns, numbers at the right, and does not pad the last one", () => {
  const rows = [
    ["a", "10", "some text"],
    ["long name", "9", ""],
  ];
  expect(textTable("name | >n | note", rows)).toEqual([
    "name        n  note",
    "a          10  some text",
    "long name   9",
  ]);
});
