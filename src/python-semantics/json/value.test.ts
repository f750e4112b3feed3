import { describe, expect, it } from "vitest";
import { isSameValue, JsonFloat } from "./value.ts";

describe("isSameValue()", () => {
  it.each<[unknown, unknown]>([
    [1, 1],
    [2n ** 70n, 2n ** 70n],
    [0.5, new JsonFloat(0.5)],
    [new JsonFloat(NaN), NaN],
    [{ a: 1, b: undefined }, { a: 1 }],
    [new Map([["a", [1, null]]]), { a: [1, null] }],
    [
      { a: 1, b: 2 },
      { b: 2, a: 1 },
    ],
    [Uint32Array.of(1, 2), Uint32Array.of(1, 2)],
    [Float32Array.of(NaN), Float32Array.of(NaN)],
  ])("holds for %o and %o", (left, right) => {
    expect([isSameValue(left, right), isSameValue(right, left)]).toEqual([true, true]);
  });

  it.each<[unknown, unknown]>([
    [1, new JsonFloat(1)],
    [1, "1"],
    [null, undefined],
    [{}, null],
    [[], {}],
    [[1], [1, 2]],
    [new Map([["a", 1]]), new Map([["b", 1]])],
    [
      new Map([
        ["a", 1],
        ["b", 2],
      ]),
      new Map([
        ["b", 2],
        ["a", 1],
      ]),
    ],
    [{ a: { b: 1 } }, { a: { b: 2 } }],
    [Uint32Array.of(1), Uint32Array.of(2)],
  ])("does not hold for %o and %o", (left, right) => {
    expect([isSameValue(left, right), isSameValue(right, left)]).toEqual([false, false]);
  });
});
