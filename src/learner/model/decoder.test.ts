import { describe, expect, test } from "vitest";

import { createRandom } from "../../lib/random.ts";
import { Decoder, pageTokens } from "./decoder.ts";
import { loadKernels } from "./kernels.ts";
import type { ModelConfig } from "./model-config.ts";
import { pairedConfig, randomTokens, tinyConfig, wildWeights } from "./tiny-model.test-helper.ts";
import { TrainingModel } from "./training-model.ts";
import { packSequences } from "./training-memory.ts";

const sizes = { maxRows: 80, maxSequences: 4, pages: 64 };

/** Gives sequence `sequence` pages of its own, in arbitrary order. */
function givePages(decoder: Decoder, sequence: number, count: number): void {
  for (let place = 0; place < count; place++)
    decoder.pageTable(sequence)[place] = (7 * (sequence * 16 + place) + 3) % 64;
}

/** Logprobs of each token after the first, given those before it. */
function logprobsFrom(decoder: Decoder, tokens: Uint32Array, rowCounts: readonly number[]): number[] {
  const logprobs: number[] = [];
  let place = 0;
  for (const count of rowCounts) {
    const rows = Array.from({ length: count }, () => decoder.add(tokens[place]!, place++, 1));
    decoder.run(rows);
    rows.forEach((_, index) => {
      const token = tokens[place - count + index + 1];
      if (token === undefined) return;
      const logit = decoder.logits(index)[token]! - Math.max(...decoder.logits(index));
      logprobs.push(logit - Math.log(decoder.temper(index, 1)));
    });
  }
  return logprobs;
}

describe.each([
  ["relaxed-simd", tinyConfig],
  ["relaxed-simd", pairedConfig],
  ["simd", pairedConfig],
] as const)("with kernels of %s", (build, config: ModelConfig) => {
  const kernels = loadKernels(build);
  const weights = wildWeights(config, 3);
  const tokens = randomTokens(config, 75, 5);

  test("a decoder's logprobs are those of the training pass, however the prompt is cut", () => {
    const decoder = new Decoder({ config, weights, kernels, ...sizes });
    const model = new TrainingModel({ config, weights, kernels, maxTokens: 80, maxTargets: 80 });
    const targets = Array.from({ length: 74 }, (_, index) => index + 1);
    const { logprobs } = model.forward(packSequences([{ tokens, targets }]));
    givePages(decoder, 1, 5);
    const inOne = logprobsFrom(decoder, tokens, [75]);
    expect(Math.max(...inOne.map((value, index) => Math.abs(value - logprobs[index]!)))).toBeLessThan(1e-5);
    expect(logprobsFrom(decoder, tokens, [1, 16, 1, 1, 33, 23])).toEqual(inOne);
  });

  test("a row's logits are the same bits beside any other rows", () => {
    const decoder = new Decoder({ config, weights, kernels, ...sizes });
    [0, 1, 2].forEach((sequence) => givePages(decoder, sequence, 5));
    const others = randomTokens(config, 200, 6);
    logprobsFrom(decoder, tokens, [75]);
    const row = decoder.add(9, 75, 1);
    decoder.run([row]);
    const alone = decoder.logits(0).slice();
    const random = createRandom(1);
    for (let trial = 0; trial < 10; trial++) {
      const before = random.integer(30);
      for (let place = 0; place < before; place++) decoder.add(others[place]!, place, 0);
      const again = decoder.add(9, 75, 1);
      const after = random.integer(30);
      for (let place = 0; place < after; place++) decoder.add(others[place + 100]!, place, 2);
      decoder.run([again]);
      expect(decoder.logits(0)).toEqual(alone);
    }
  });

  test("copyPage() lets two sequences go on from one beginning", () => {
    const decoder = new Decoder({ config, weights, kernels, ...sizes });
    givePages(decoder, 1, 5);
    logprobsFrom(decoder, tokens.subarray(0, 20), [20]);
    const next = decoder.add(tokens[20]!, 20, 1);
    decoder.run([next]);
    const expected = decoder.logits(0).slice();
    // The first page is shared, the second copied and then extended.
    const [first, second] = decoder.pageTable(1);
    decoder.pageTable(2).set([first!, 63]);
    decoder.copyPage(second!, 63);
    for (let place = 17; place < 20; place++) decoder.add(tokens[place]!, place, 2);
    const row = decoder.add(tokens[20]!, 20, 2);
    decoder.run([row]);
    expect(decoder.logits(0)).toEqual(expected);
    expect(pageTokens).toBe(16);
  });

  test("setWeights() changes what the decoder says, and refuses another shape", () => {
    const decoder = new Decoder({ config, weights: wildWeights(config, 8), kernels, ...sizes });
    const fresh = new Decoder({ config, weights, kernels, ...sizes });
    decoder.setWeights(weights);
    for (const each of [decoder, fresh]) {
      givePages(each, 0, 1);
      each.run([each.add(3, 0, 0)]);
    }
    expect(decoder.logits(0)).toEqual(fresh.logits(0));
    expect(() => decoder.setWeights(weights.subarray(1))).toThrow("Cannot load the weights");
  });
});
