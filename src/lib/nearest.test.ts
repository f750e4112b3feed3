import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { renamedSettings, settingNames } from "../api/rollout-settings.ts";
import { keyOf } from "../parts/setting.ts";
import { meant, nearest, remedyFor, suggestion } from "./nearest.ts";

const flags = settingNames.map((name) => `--${keyOf(name)}`);

describe("suggestion()", () => {
  it.each([
    ["--gropu-size", '"--group-size"'],
    ["--groupSize", '"--group-size"'],
    ["--group_size", '"--group-size"'],
    ["--taks", '"--tasks"'],
    ["--queueca", '"--queue-ca"'],
    ["--queuec-a", '"--queue-ca"'],
    ["--environment", '"--env"'],
    ["--model-path", '"--model"'],
    ["--base-url", '"--url"'],
    ["--output", '"--out"'],
    ["--temp", '"--temperature"'],
    ["--max-tokens", '"--max-new-tokens", "--max-sampled-tokens" or "--max-context-tokens"'],
    ["--timeout", '"--group-timeout", "--connect-timeout" or "--agent-timeout"'],
  ])("reads %s as %s", (word, expected) => {
    expect(suggestion(word, flags)).toBe(`did you mean ${expected}?`);
  });

  it.each(["--banana", "-n", "--n", "", "--", "--trials"])("has none for %j", (word) => {
    expect(suggestion(word, flags)).toBeNull();
  });

  it("finds every flag with one letter dropped, doubled, replaced or swapped with the next", () => {
    const misspelt = fc.constantFrom(...flags).chain((flag) =>
      fc.record({
        flag: fc.constant(flag),
        at: fc.integer({ min: 2, max: flag.length - 2 }),
        how: fc.constantFrom("drop", "double", "replace", "swap"),
      }),
    );
    fc.assert(
      fc.property(misspelt, ({ flag, at, how }) => {
        const [before, one, next, after] = [flag.slice(0, at), flag[at]!, flag[at + 1]!, flag.slice(at + 2)];
        const word = { drop: before + next + after, double: before + one + one + next + after, replace: `${before}q${next}${after}`, swap: before + next + one + after }[how]; // prettier-ignore
        // A mistake may be another flag, also one of earlier versions.
        if (flags.includes(word) || renamedSettings.has(word.slice(2)) || flag.length < 5) return;
        expect(suggestion(word, flags)).toContain(how === "drop" || flag.length > 6 ? `"${flag}"` : "--");
      }),
      { numRuns: 300 },
    );
  });
});

it("nearest() gives the name, meant() a sentence to append, remedyFor() all names before it", () => {
  expect(nearest("vrel", ["slime", "verl"])).toBe("verl");
  expect(nearest("banana", ["slime", "verl"])).toBeNull();
  expect(meant("vrel", ["slime", "verl"])).toBe(' Did you mean "verl"?');
  expect(remedyFor("vrel", ["slime", "verl"])).toBe('use one of slime, verl. Did you mean "verl"?');
  expect(meant("banana", ["slime", "verl"])).toBe("");
});
