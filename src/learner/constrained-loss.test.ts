// A world of two tokens, enumerated: the expected gradient of the loss for each `--constrained`
// setting, compared with the exact gradient of the expected reward of the constrained policy.
//
//   x   free: 0 or 1
//   y   constrained: after x = 0 the ids 0 and 1 are allowed, after x = 1 only the id 2

import { describe, expect, test } from "vitest";

import type { ConstrainedLoss, Turn } from "../core/index.ts";
import { defaultConstrainedLoss, toSamples } from "../trajectories/index.ts";
import { tokenLoss } from "./loss.ts";

const xLogits = [0.3, -0.4];
const yLogits = [
  [0.5, -0.2, 0.9],
  [-0.6, 0.1, 0.4],
];
const allowed = [[0, 1], [2]];
const rewards = [
  [1, 0.8, 0],
  [0, 0, -0.7],
];

function softmax(logits: readonly number[], ids = logits.map((_, id) => id)): number[] {
  const total = ids.reduce((sum, id) => sum + Math.exp(logits[id]!), 0);
  return logits.map((logit, id) => (ids.includes(id) ? Math.exp(logit) / total : 0));
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0);
const pX = softmax(xLogits);
const pY = yLogits.map((logits) => softmax(logits));
const qY = yLogits.map((logits, x) => softmax(logits, allowed[x]));
const valueOf = (x: number): number => sum(qY[x]!.map((q, y) => q * rewards[x]![y]!));
const expected = sum(pX.map((p, x) => p * valueOf(x)));

/** Exact gradient of the expected reward, by logit; found by differentiating it on paper. */
const exact = {
  x: pX.map((p, x) => p * (valueOf(x) - expected)),
  y: qY.map((row, x) => row.map((q, y) => pX[x]! * q * (rewards[x]![y]! - valueOf(x)))),
};

function turnOf(x: number, y: number, loss: ConstrainedLoss): Turn {
  return {
    index: 0,
    parent: null,
    observationTokens: Uint32Array.of(9),
    spelledTokens: 0,
    deviation: null,
    sampledTokens: Uint32Array.of(x, y),
    // Servers report logprobs of the distribution that the token was sampled from.
    logprobs: Float32Array.of(Math.log(pX[x]!), Math.log(qY[x]![y]!)),
    finish: { reason: "stop", matched: null, raw: null },
    weightSpans: [{ tokenCount: 2, dispatch: null, reply: null }],
    rewriteReason: null,
    constrained: { ranges: [{ start: 1, end: 2 }], allowedMass: null, loss },
  };
}

const origin = {
  episodeId: "e",
  groupId: "g",
  taskId: "t",
  reward: null,
  tokenAccounting: "token-exact",
  historyPolicy: "append-only",
} as const;

/**
 * Expected gradient of the loss, over every pair of tokens: `mask` decides which of both tokens
 * count. The trainer computes logprobs over the whole vocabulary.
 */
function gradientOf(
  mask: (turn: Turn) => readonly number[],
  loss: ConstrainedLoss,
  clip: { low: number; high: number } | null,
) {
  const x = [0, 0];
  const y = [
    [0, 0, 0],
    [0, 0, 0],
  ];
  for (const first of [0, 1]) {
    for (const second of allowed[first]!) {
      const turn = turnOf(first, second, loss);
      const probability = pX[first]! * qY[first]![second]!;
      const advantage = rewards[first]![second]! - expected;
      const [takesX, takesY] = mask(turn);
      const slope = (logprob: number, sampledLogprob: number): number =>
        tokenLoss(logprob, 0, { weight: 1, advantage, sampledLogprob, referenceLogprob: 0 }, { clip }).slope;
      const ofX = -slope(Math.log(pX[first]!), turn.logprobs![0]!) * takesX! * probability;
      const ofY = -slope(Math.log(pY[first]![second]!), turn.logprobs![1]!) * takesY! * probability;
      for (const id of [0, 1]) x[id]! += ofX * (Number(id === first) - pX[id]!);
      for (const id of [0, 1, 2]) y[first]![id]! += ofY * (Number(id === second) - pY[first]![id]!);
    }
  }
  return { x, y };
}

/** The mask of the rows. */
function rowMask(turn: Turn): readonly number[] {
  const [sample] = toSamples({ turns: [turn] }, origin).samples;
  return sample === undefined ? [0, 0] : [...sample.lossMask.subarray(1)];
}

const distance = (one: readonly number[], other: readonly number[]): number =>
  Math.max(...one.map((value, at) => Math.abs(value - other[at]!)));

describe.each([
  ["without a ratio", null],
  ["with a ratio to the recorded logprobs", { low: 1, high: 1e9 }],
] as const)("the expected gradient %s", (_, clip) => {
  test("of the default is exact for every token that is in the loss", () => {
    expect(defaultConstrainedLoss).toBe("mask");
    const { x, y } = gradientOf(rowMask, defaultConstrainedLoss, clip);
    expect(distance(x, exact.x)).toBeLessThan(1e-7);
    expect(distance(y.flat(), [0, 0, 0, 0, 0, 0])).toBe(0);
  });

  test("of 'train' is exact for free tokens and biased for constrained ones", () => {
    const { x, y } = gradientOf(rowMask, "train", clip);
    expect(distance(x, exact.x)).toBeLessThan(1e-7);
    expect(distance(y[0]!, exact.y[0]!)).toBeGreaterThan(0.02);
    // The logit of an excluded id cannot change the reward, and is pushed nevertheless.
    expect(exact.y[0]![2]).toBeCloseTo(0, 12);
    expect(Math.abs(y[0]![2]!)).toBeGreaterThan(0.02);
  });

  test("of a forced token is 0, which only its mask keeps", () => {
    expect(distance(exact.y[1]!, [0, 0, 0])).toBe(0);
    expect(distance(gradientOf(rowMask, "train", clip).y[1]!, [0, 0, 0])).toBe(0);
    expect(distance(gradientOf(() => [1, 1], "train", clip).y[1]!, exact.y[1]!)).toBeGreaterThan(0.02);
  });

  test("of 'drop' teaches nothing, free tokens included", () => {
    const { x, y } = gradientOf(rowMask, "drop", clip);
    expect(distance([...x, ...y.flat()], Array<number>(8).fill(0))).toBe(0);
  });
});
