import { describe, expect, test } from "vitest";

import { type LossOptions, tokenLoss, type TokenTerms } from "./loss.ts";

const terms: TokenTerms = { weight: 0.3, advantage: 1.4, sampledLogprob: -1.2, referenceLogprob: -0.7 };

describe("tokenLoss()", () => {
  test.each<[string, LossOptions, Partial<TokenTerms>]>([
    ["the score function", {}, {}],
    ["an entropy bonus", { entropy: 0.02 }, {}],
    ["a distance to the reference", { kl: 0.5 }, { advantage: 0 }],
    ["a ratio inside the clip", { clip: { low: 0.2, high: 0.2 } }, { sampledLogprob: -1.05 }],
    ["a ratio above the clip", { clip: { low: 0.2, high: 0.2 } }, { sampledLogprob: -2 }],
    [
      "a ratio below the clip, for a bad token",
      { clip: { low: 0.2, high: 0.2 } },
      { sampledLogprob: -0.5, advantage: -1 },
    ],
    [
      "a ratio above the clip, for a bad token",
      { clip: { low: 0.2, high: 0.2 } },
      { sampledLogprob: -2, advantage: -1 },
    ],
    ["all of it", { clip: { low: 0.2, high: 0.3 }, kl: 0.1, entropy: 0.01 }, { sampledLogprob: -1.1 }],
  ])("has the derivatives of its value: %s", (_, options, change) => {
    const at = (logprob: number, entropy: number) => tokenLoss(logprob, entropy, { ...terms, ...change }, options);
    const [logprob, entropy, step] = [-1, 2, 1e-5];
    const { slope, entropySlope } = at(logprob, entropy);
    const difference = (high: { readonly loss: number }, low: { readonly loss: number }): number =>
      (high.loss - low.loss) / (2 * step);
    expect(slope).toBeCloseTo(difference(at(logprob + step, entropy), at(logprob - step, entropy)), 8);
    expect(entropySlope).toBeCloseTo(difference(at(logprob, entropy + step), at(logprob, entropy - step)), 8);
  });

  test("clips what has gone far enough in the direction it is pushed, and nothing else", () => {
    const clip = { low: 0.2, high: 0.3 };
    const slopeAt = (ratio: number, advantage: number): { readonly slope: number; readonly isClipped: boolean } =>
      tokenLoss(Math.log(ratio), 0, { ...terms, advantage, sampledLogprob: 0 }, { clip });
    expect(slopeAt(1.31, 1)).toMatchObject({ isClipped: true, slope: 0 });
    expect(slopeAt(1.29, 1).slope).toBeCloseTo(-0.3 * 1.29);
    expect(slopeAt(0.5, 1).slope).toBeCloseTo(-0.3 * 0.5);
    expect(slopeAt(0.79, -1)).toMatchObject({ isClipped: true });
    expect(slopeAt(1.5, -1).slope).toBeCloseTo(0.3 * 1.5);
  });

  test("the distance to the reference is 0 where the two agree, and positive elsewhere", () => {
    const distance = (gap: number): number => tokenLoss(-1, 0, { ...terms, referenceLogprob: -1 + gap }, { kl: 1 }).kl;
    expect(distance(0)).toBe(0);
    expect(distance(0.5)).toBeGreaterThan(0);
    expect(distance(-0.5)).toBeGreaterThan(0);
  });

  test("over what a policy samples, the distance has the gradient of KL(policy, reference)", () => {
    const [logits, reference] = [
      [0.3, -1.2, 0.8],
      [-0.5, 0.1, 0.4],
    ];
    const logprobs = (values: readonly number[]): readonly number[] => {
      const total = Math.log(values.reduce((sum, value) => sum + Math.exp(value), 0));
      return values.map((value) => value - total);
    };
    const [policy, base] = [logprobs(logits), logprobs(reference)];
    const divergence = (values: readonly number[]): number =>
      logprobs(values).reduce((sum, logprob, token) => sum + Math.exp(logprob) * (logprob - base[token]!), 0);
    for (const [place, logit] of logits.entries()) {
      const moved = (by: number): number => divergence(logits.with(place, logit + by));
      // Derivative of a logprob by the logit at `place`: 1 for that token itself, less its
      // probability.
      const expected = policy.reduce((sum, logprob, token) => {
        const { slope } = tokenLoss(
          logprob,
          0,
          { ...terms, weight: 1, advantage: 0, referenceLogprob: base[token]! },
          { kl: 1 },
        );
        return sum + Math.exp(logprob) * slope * ((token === place ? 1 : 0) - Math.exp(policy[place]!));
      }, 0);
      expect(expected).toBeCloseTo((moved(1e-5) - moved(-1e-5)) / 2e-5, 6);
    }
  });
});
