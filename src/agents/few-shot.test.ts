import { describe, expect, test } from "vitest";

import { ConfigurationError } from "../core/index.ts";
import { createFewShot, parseDisplays } from "./tool-calling.ts";

const displays = ["a", "b", "c", "d", "e", "f", "g"].map((name) => `user: ${name}\nassistant: None`);
const systemOf = (seed: number, displayCount?: number): string => {
  const strategy = createFewShot({ displays, ...(displayCount === undefined ? {} : { displayCount }) });
  return strategy.open({ guidelines: "Be kind.", tools: [], firstUtterance: "Hi", seed }).messages[0]?.content ?? "";
};

describe("createFewShot()", () => {
  test("shows the displays behind the guidelines, numbered", () => {
    expect(
      createFewShot({ displays: ["only"], displayCount: 1 }).open({
        guidelines: "Be kind.",
        tools: [],
        firstUtterance: "Hi",
        seed: 4,
      }),
    ).toEqual({
      messages: [
        { role: "system", content: "Be kind.\n\nExample 1:\nonly" },
        { role: "user", content: "Hi" },
      ],
      tools: [],
    });
  });

  test("draws five different ones by default, anew for each seed and alike for the same", () => {
    const shown = systemOf(1).match(/(?<=user: )./g) ?? [];
    expect(shown.length).toBe(5);
    expect(new Set(shown).size).toBe(5);
    expect(systemOf(1)).toBe(systemOf(1));
    expect(new Set([1, 2, 3, 4].map((seed) => systemOf(seed))).size).toBe(4);
  });

  test("shows every display in some episode", () => {
    const seen = new Set(Array.from({ length: 60 }, (_, seed) => /(?<=user: )./.exec(systemOf(seed, 1))?.[0]));
    expect(seen.size).toBe(displays.length);
  });

  test.each([
    [{}, "there are 0 displays, but 5 should be shown"],
    [{ displays, displayCount: 8 }, "there are 7 displays, but 8 should be shown"],
    [{ displays, displayCount: 0 }, "displayCount is 0"],
  ])("refuses %j", (options, state) => {
    expect(() => createFewShot(options)).toThrow(ConfigurationError);
    expect(() => createFewShot(options)).toThrow(state);
  });
});

describe("parseDisplays()", () => {
  test("reads one display a line", () => {
    expect(parseDisplays('{"messages_display": "user: a\\nassistant: b"}\n\n{"messages_display": "c"}\n', "x")).toEqual(
      ["user: a\nassistant: b", "c"],
    );
  });

  test.each(["{", "5", '{"messages": "c"}', '{"messages_display": null}'])("names file and line of %s", (line) => {
    expect(() => parseDisplays(`{"messages_display": "c"}\n${line}`, "few.jsonl")).toThrow(ConfigurationError);
    expect(() => parseDisplays(`{"messages_display": "c"}\n${line}`, "few.jsonl")).toThrow('"few.jsonl", line 2');
  });
});
