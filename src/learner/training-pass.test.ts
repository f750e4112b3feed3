// The gradient of the whole loss, from tokens to parameters, against its numeric derivative.

import fc from "fast-check";
import { describe, expect, test } from "vitest";

import { createRandom } from "../lib/random.ts";
import { initializeWeights, TrainingModel } from "./model/index.ts";
import type { LossSequence, LossOptions } from "./loss.ts";
import { evaluatePass, sharedPrefix, splitWork, trainPass } from "./training-pass.ts";

const config = {
  vocabularySize: 24,
  hiddenSize: 16,
  layers: 2,
  heads: 2,
  keyValueHeads: 1,
  headSize: 16,
  feedForwardSize: 24,
  ropeTheta: 10_000,
  normEpsilon: 1e-6,
  contextLength: 64,
};

/**
 * A group of four: two that passed, two that did not, sampled slightly off-policy so that ratios
 * differ from 1.
 */
function group(model: TrainingModel): LossSequence[] {
  const random = createRandom(2);
  const draw = (count: number): number[] => Array.from({ length: count }, () => random.integer(config.vocabularySize));
  const prompt = draw(6);
  return [1, 1, -1, -1].map((advantage) => {
    const tokens = Uint32Array.from([...prompt, ...draw(10)]);
    const targets = Uint32Array.from([6, 7, 8, 11, 12, 15]);
    const fill = (value: number): Float32Array => new Float32Array(targets.length).fill(value);
    const bare = { tokens, targets, weights: fill(1 / 24), advantages: fill(advantage) };
    const sequence = { ...bare, sampledLogprobs: null, referenceLogprobs: null };
    const { logprobs } = evaluatePass(model, { sequences: [sequence], prefixLength: 0 })[0]!;
    // Distances far inside the clip or far outside: at its border the loss has a kink, and no
    // derivative.
    const near = (distances: readonly number[]): Float32Array =>
      logprobs.map((logprob) => logprob + random.pick(distances));
    return { ...bare, sampledLogprobs: near([-0.3, -0.03, 0.03, 0.3]), referenceLogprobs: near([-0.5, 0.2, 0.4]) };
  });
}

test.each<[string, LossOptions]>([
  ["REINFORCE and on-policy GRPO", {}],
  ["GRPO with clip, distance and entropy", { clip: { low: 0.1, high: 0.1 }, kl: 0.3, entropy: 0.1 }],
])("%s: the gradient of every parameter is the slope of the loss", (_, loss) => {
  const weights = initializeWeights(config, { seed: 4, inductionHeads: false });
  const model = new TrainingModel({ config, weights, maxTokens: 128, maxTargets: 64 });
  const pass = { sequences: group(model), prefixLength: 6 };
  model.clearGradients();
  const { sums } = trainPass(model, pass, loss);
  expect(sums.clipped > 0).toBe(loss.clip !== undefined);
  const gradients = model.gradients.slice();
  for (const { name, offset, size } of model.layout.parameters) {
    const gradient = gradients.subarray(offset, offset + size);
    const length = Math.hypot(...gradient);
    expect(length, name).toBeGreaterThan(0);
    const at = (distance: number): number => {
      model.weights.set(weights);
      gradient.forEach((slope, index) => (model.weights[offset + index]! += (distance * slope) / length));
      model.weightsChanged();
      return trainPass(model, pass, loss).sums.loss;
    };
    const step = 4e-3;
    const slope = (at(step) - at(-step)) / (2 * step);
    // The loss has seven digits in floats, and the difference is only that of one step.
    expect(Math.abs(slope - length) / length, name).toBeLessThan(0.02);
  }
});

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
