import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { sharedPrefix, splitWork } from "./split-work.ts";

const sequenceOf = (prefix: number, own: number) => ({
  tokens: Uint32Array.from({ length: prefix + own }, (_, place) => (place < prefix ? place : 1000 + own)),
  targets: new Uint32Array(own),
});

describe("splitWork()", () => {
  test("gives every sequence to one pass of one thread, within the limits", () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 80 }), { minLength: 1, maxLength: 60 });
    fc.assert(
      fc.property(lengths, fc.integer({ min: 1, max: 4 }), fc.integer({ min: 0, max: 20 }), (owns, threads, prefix) => {
        const sequences = owns.map((own) => sequenceOf(prefix, own));
        const limits = { threads, maxTokens: 200, maxTargets: 150 };
        const shares = splitWork(sequences, limits);
        expect(shares).toHaveLength(threads);
        const passes = shares.flat();
        expect(passes.flatMap(({ members }) => members).toSorted((a, b) => a - b)).toEqual([...sequences.keys()]);
        for (const { members, prefixLength } of passes) {
          const sum = (of: (own: number) => number): number =>
            members.reduce((total, index) => total + of(owns[index]!), 0);
          if (members.length > 1) expect(prefixLength).toBeGreaterThanOrEqual(prefix);
          if (members.length > 1) expect(prefix + sum((own) => own)).toBeLessThanOrEqual(limits.maxTokens);
          if (members.length > 1) expect(sum((own) => own)).toBeLessThanOrEqual(limits.maxTargets);
        }
      }),
      { seed: 1 },
    );
  });

  test("gives threads about the same work", () => {
    const sequences = Array.from({ length: 40 }, (_, index) => sequenceOf(10, 20 + ((index * 37) % 50)));
    const work = splitWork(sequences, { threads: 2, maxTokens: 400, maxTargets: 400 }).map((passes) =>
      passes.flatMap(({ members }) => members).reduce((sum, index) => sum + sequences[index]!.tokens.length, 0),
    );
    expect(Math.max(...work) / Math.min(...work)).toBeLessThan(1.05);
  });
});

test("sharedPrefix() leaves every sequence a token of its own", () => {
  const prefixOf = (...lists: readonly number[][]): number => sharedPrefix(lists.map((list) => Uint32Array.from(list)));
  expect(prefixOf([1, 2, 3], [1, 2, 4])).toBe(2);
  expect(prefixOf([1, 2, 3], [1, 2, 3])).toBe(2);
  expect(prefixOf([1, 2], [1, 2, 3])).toBe(1);
  expect(prefixOf([1, 2, 3])).toBe(0);
  expect(prefixOf([1], [2])).toBe(0);
});
