import { expect, test } from "vitest";

import { findRefused, refused, splitName } from "./words.mjs";

test("findRefused() finds words and phrases, not parts of words", () => {
  expect(findRefused(splitName("wantedTextsOfRoom"))).toEqual(["wanted", "texts", "room"]);
  expect(findRefused("The run goes\non where it was cut off")).toEqual(["goes on", "cut off"]);
  expect(findRefused("context handsome replayed roomy")).toEqual([]);
});

test("the list of refused words stays short", () => {
  expect(Object.keys(refused).length).toBeLessThanOrEqual(30);
});
