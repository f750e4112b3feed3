import { describe, expect, test } from "vitest";

import { initializeWeights } from "./initialize-weights.ts";
import { type ModelConfig, modelShapes } from "./model-config.ts";
import { randomTokens } from "./tiny-model.test-helper.ts";
import { TrainingModel } from "./training-model.ts";
import { packSequences } from "./training-memory.ts";

/** Mean logprob of the second half of sequences that hold the same 40 random tokens twice. */
function logprobOfRepetition(config: ModelConfig, weights: Float32Array): number {
  const model = new TrainingModel({ config, weights, maxTokens: 320, maxTargets: 160 });
  const sequences = [1, 2, 3, 4].map((seed) => {
    const once = randomTokens(config, 40, seed);
    return { tokens: [...once, ...once], targets: Array.from({ length: 39 }, (_, index) => 41 + index) };
  });
  const { logprobs } = model.forward(packSequences(sequences));
  return logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length;
}

describe.each(Object.entries(modelShapes))("initializeWeights() of %s", (_, shape) => {
  const config = { ...shape, vocabularySize: 1024 };

  test("depends on the seed and nothing else", () => {
    const bytes = (seed: number): Buffer => Buffer.from(initializeWeights(config, { seed }).buffer);
    const first = bytes(1);
    expect(first.equals(bytes(1))).toBe(true);
    expect(first.equals(bytes(2))).toBe(false);
  });

  test("makes a model that expects repetition before it is trained, which plain random weights do not", () => {
    const chance = -Math.log(config.vocabularySize);
    const plain = logprobOfRepetition(config, initializeWeights(config, { seed: 1, inductionHeads: false }));
    const planted = logprobOfRepetition(config, initializeWeights(config, { seed: 1 }));
    expect(plain).toBeLessThan(chance + 0.1);
    expect(planted).toBeGreaterThan(chance + 0.8);
  });
});
