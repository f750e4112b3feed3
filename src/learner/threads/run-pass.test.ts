// The gradient of the whole loss, from tokens to parameters, against its numeric derivative.

import { expect, test } from "vitest";

import { createRandom } from "../../lib/random.ts";
import { initializeWeights, TrainingModel } from "../model/index.ts";
import type { LossSequence } from "../loss-sequence.ts";
import type { LossOptions } from "../token-loss.ts";
import { runPass } from "./run-pass.ts";

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

/** A group of four: two that passed, two that did not, sampled a little off the policy so that ratios differ from 1. */
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
    const { logprobs } = runPass(model, { sequences: [sequence], prefixLength: 0 }, null).outcomes[0]!;
    // Far inside the clip or far outside: at its border the loss has a kink, and no derivative.
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
  const { sums } = runPass(model, pass, loss);
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
      return runPass(model, pass, loss).sums.loss;
    };
    const step = 4e-3;
    const slope = (at(step) - at(-step)) / (2 * step);
    // Floats: the loss has seven digits, and the step makes its difference.
    expect(Math.abs(slope - length) / length, name).toBeLessThan(0.02);
  }
});
