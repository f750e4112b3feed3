import { describe, expect, test } from "vitest";

import { createRandom } from "../../lib/random.ts";
import { type KernelBuild, loadKernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import { referenceLogprobs } from "./reference-model.test-helper.ts";
import { pairedConfig, randomTokens, tinyConfig, wildWeights } from "./tiny-model.test-helper.ts";
import { TrainingModel } from "./training-model.ts";
import { packSequences, type TrainingSequence } from "./training-memory.ts";

const builds: readonly KernelBuild[] = ["relaxed-simd", "simd"];

function makeModel(config: ModelConfig, weights: Float32Array, build?: KernelBuild): TrainingModel {
  return new TrainingModel({ config, weights, maxTokens: 256, maxTargets: 200, kernels: loadKernels(build) });
}

/** Sequences with a shared beginning, and targets within and after it. */
function sharedSequences(config: ModelConfig, prefixLength: number, lengths: readonly number[]): TrainingSequence[] {
  const prefix = randomTokens(config, prefixLength, 1);
  return lengths.map((length, index) => {
    const own = randomTokens(config, length, 10 + index);
    const tokens = Uint32Array.from([...prefix, ...own]);
    const random = createRandom(20 + index);
    const targets = Array.from(tokens.keys()).filter((place) => place >= 1 && random.next() < 0.6);
    return { tokens, targets };
  });
}

function referenceTargets(
  config: ModelConfig,
  weights: Float64Array<ArrayBuffer>,
  sequences: readonly TrainingSequence[],
): { logprobs: number[]; entropies: number[] } {
  const logprobs: number[] = [];
  const entropies: number[] = [];
  for (const { tokens, targets } of sequences) {
    const rows = referenceLogprobs(config, weights, tokens);
    for (const place of Array.from(targets)) {
      const row = rows[place - 1]!;
      logprobs.push(row[tokens[place]!]!);
      entropies.push(-row.reduce((sum, logprob) => sum + logprob * Math.exp(logprob), 0));
    }
  }
  return { logprobs, entropies };
}

function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  expect(a.length).toBe(b.length);
  return Math.max(0, ...Array.from(a, (value, index) => Math.abs(value - b[index]!)));
}

describe.each(builds)("with kernels of %s", (build) => {
  describe.each([
    ["odd groups of heads", tinyConfig, 0, [52, 5]],
    ["paired heads, a shared prefix", pairedConfig, 21, [31, 6]],
  ])("%s", (_, config, prefixLength, lengths) => {
    const weights = wildWeights(config, 3);
    const sequences = sharedSequences(config, prefixLength, lengths);
    const batch = packSequences(sequences, { prefixLength });
    const doubles = Float64Array.from(weights);
    const model = makeModel(config, weights, build);

    test("logprobs and entropies are those of the plainest implementation", () => {
      const { logprobs, entropies } = model.forward(batch);
      const expected = referenceTargets(config, doubles, sequences);
      expect(largestDifference(logprobs, expected.logprobs)).toBeLessThan(1e-5);
      expect(largestDifference(entropies, expected.entropies)).toBeLessThan(1e-5);
    });

    test("the gradient of every parameter is the slope of the loss", () => {
      const random = createRandom(5);
      const coefficients = Array.from({ length: batch.targets.length }, () => random.next() * 2 - 0.7);
      const entropyCoefficients = Array.from({ length: batch.targets.length }, () => random.next() - 0.5);
      const loss = (point: Float64Array<ArrayBuffer>): number => {
        const { logprobs, entropies } = referenceTargets(config, point, sequences);
        return logprobs.reduce(
          (sum, logprob, index) =>
            sum + coefficients[index]! * logprob + entropyCoefficients[index]! * entropies[index]!,
          0,
        );
      };
      model.clearGradients();
      model.forward(batch);
      model.backward(coefficients, entropyCoefficients);
      for (const { name, offset, size } of model.layout.parameters) {
        const gradient = model.gradients.subarray(offset, offset + size);
        const length = Math.hypot(...gradient);
        expect(length, name).toBeGreaterThan(0);
        // Half along the gradient, which tests its length, half in a random direction, which tests
        // its direction.
        const direction = Float64Array.from(
          gradient,
          (slope) => slope / length + (random.next() * 2 - 1) * Math.sqrt(3 / size),
        );
        const step = 1e-5;
        const at = (distance: number): number => {
          const point = doubles.slice();
          direction.forEach((value, index) => (point[offset + index]! += distance * value));
          return loss(point);
        };
        const slope = (at(step) - at(-step)) / (2 * step);
        const predicted = direction.reduce((sum, value, index) => sum + value * gradient[index]!, 0);
        expect(Math.abs(slope - predicted) / length, name).toBeLessThan(2e-4);
      }
    });
  });
});

describe("update()", () => {
  const config = pairedConfig;
  const options = { learningRate: 0.01, weightDecay: 0.1, beta1: 0.8, beta2: 0.9, maxGradientNorm: 0.5 };

  function setGradients(model: TrainingModel, seed: number): void {
    const random = createRandom(seed);
    for (let index = 0; index < model.gradients.length; index++) model.gradients[index] = random.next() - 0.5;
  }

  test("is AdamW on clipped gradients, without decay of vectors", () => {
    const weights = wildWeights(config, 3);
    const model = makeModel(config, weights);
    const size = weights.length;
    const [expected, means, variances] = [Float64Array.from(weights), new Float64Array(size), new Float64Array(size)];
    for (let step = 1; step <= 3; step++) {
      setGradients(model, step);
      const norm = Math.sqrt(model.gradients.reduce((sum, slope) => sum + slope * slope, 0));
      for (const { shape, offset, size: count } of model.layout.parameters) {
        for (let index = offset; index < offset + count; index++) {
          const slope = (model.gradients[index]! * 0.5) / norm;
          means[index] = 0.8 * means[index]! + 0.2 * slope;
          variances[index] = 0.9 * variances[index]! + 0.1 * slope * slope;
          const move = means[index]! / (1 - 0.8 ** step) / (Math.sqrt(variances[index]! / (1 - 0.9 ** step)) + 1e-8);
          expected[index] = expected[index]! * (shape.length > 1 ? 1 - 0.01 * 0.1 : 1) - 0.01 * move;
        }
      }
      expect(model.update(options)).toBeCloseTo(norm, 3);
    }
    expect(largestDifference(model.weights, expected)).toBeLessThan(2e-6);
  });

  test("goes on from a copied optimizer state as if it had never stopped", () => {
    const first = makeModel(config, wildWeights(config, 3));
    setGradients(first, 1);
    first.update(options);
    const second = makeModel(config, first.weights);
    second.restoreOptimizer(first.optimizerState());
    for (const model of [first, second]) {
      setGradients(model, 2);
      model.update(options);
    }
    expect(second.weights).toEqual(first.weights);
  });

  test("teaches a few sequences by heart", () => {
    const model = makeModel(config, wildWeights(config, 3));
    const batch = packSequences(sharedSequences(config, 8, [20, 12]), { prefixLength: 8 });
    const mean = (): number => {
      const { logprobs } = model.forward(batch);
      return logprobs.reduce((sum, logprob) => sum + logprob, 0) / logprobs.length;
    };
    for (let step = 0; step < 60; step++) {
      mean();
      model.clearGradients();
      model.backward(new Float32Array(batch.targets.length).fill(-1 / batch.targets.length));
      model.update({ learningRate: 0.01 });
    }
    expect(mean()).toBeGreaterThan(-0.05);
  });
});

describe("forward()", () => {
  const model = makeModel(tinyConfig, wildWeights(tinyConfig, 3));

  test.each([
    ["it has 300 tokens, expected at most 256", [{ tokens: new Uint32Array(300), targets: [] }]],
    [
      "it has 201 targets, expected at most 200",
      [{ tokens: new Uint32Array(9), targets: new Uint32Array(201).fill(1) }],
    ],
    ["a token id is not below the vocabulary size of 40", [{ tokens: [40], targets: [] }]],
  ])("refuses a batch: %s", (problem, sequences) => {
    expect(() => model.forward(packSequences(sequences))).toThrow(`Cannot run a batch: ${problem}.`);
  });

  test("must come before each backward()", () => {
    const batch = packSequences([{ tokens: [1, 2], targets: [1] }]);
    expect(() => model.backward([1])).toThrow('call "forward" before');
    model.forward(batch);
    model.backward([1]);
    expect(() => model.backward([1])).toThrow('call "forward" before');
  });
});

test("packSequences() refuses targets without a token before, and sequences that are all prefix", () => {
  expect(() => packSequences([{ tokens: [1, 2], targets: [0] }])).toThrow("target 0 is outside 1 to 1");
  expect(() => packSequences([{ tokens: [1, 2], targets: [2] }])).toThrow("target 2 is outside 1 to 1");
  expect(() => packSequences([{ tokens: [1, 2], targets: [] }], { prefixLength: 2 })).toThrow("no tokens beyond");
});
