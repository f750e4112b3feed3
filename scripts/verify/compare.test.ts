import { describe, expect, test } from "vitest";

import { compare } from "./compare.mjs";

const reference = {
  folder: "models/x",
  cases: [
    { text: "ab", ids: [1, 2, 3], first: 1, logprobs: [-1, -2], greedy: [4, 5] },
    { text: "c", ids: [1, 2], first: 1, logprobs: [-3], greedy: [6] },
  ],
};

/** The right answers, with a change. */
function answers(change: { readonly logprob?: number; readonly greedy?: number; readonly encodesEqually?: boolean }) {
  const { logprob = -3, greedy = 6, encodesEqually = true } = change;
  return {
    peer: "peer 1",
    answers: [
      { logprobs: [-1, -2.0001], greedy: [4, 5], encodesEqually: true },
      { logprobs: [logprob], greedy: [greedy], encodesEqually },
    ],
  };
}

describe("compare()", () => {
  test("passes what is equal within the tolerance", () => {
    const outcome = compare(reference, answers({}), 1e-3);
    expect(outcome).toMatchObject({ passed: true, prompts: 2, logprobs: 3, largestDifference: 0.0001 });
  });

  test.each([{ logprob: -3.01 }, { logprob: -Infinity }, { logprob: NaN }, { greedy: 7 }, { encodesEqually: false }])(
    "does not pass %j",
    (change) => {
      expect(compare(reference, answers(change), 1e-3).passed).toBe(false);
    },
  );

  test("refuses an answer of another length", () => {
    const [first] = answers({}).answers;
    expect(() => compare(reference, { peer: "peer 1", answers: [first!] }, 1e-3)).toThrow(
      "answered no logprobs, 1 wanted",
    );
  });
});
