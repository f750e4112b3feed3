import { describe, expect, test } from "vitest";

import { createRandom, deriveSeed } from "../../lib/random.ts";
import { plainParams } from "../plain-params.test-helper.ts";
import type { GenerationParams } from "../token-sampling.ts";
import type {
  LlamaContext,
  LlamaInput,
  LlamaRow,
  LlamaSequence,
  NativeConfig,
  NativeContext,
  NativeSampler,
} from "./llama-library.ts";
import { Rows } from "./rows.ts";

const vocabularySize = 8_200;
const params: GenerationParams = { ...plainParams, maxNewTokens: 1 };

/** A row like those of language models: some tokens stand out, and all others form a long tail. */
function peaked(seed: number): Float32Array {
  const random = createRandom(deriveSeed(11, seed));
  const logits = Float32Array.from({ length: vocabularySize }, () => random.next() * 10 - 4);
  for (let count = 0; count < 40; count++) logits[Math.floor(random.next() * vocabularySize)] = 7 + random.next() * 4;
  return logits;
}

const orders = new WeakMap<Float32Array, readonly number[]>();

/** The ids of a row, the highest logit first. */
function orderOf(logits: Float32Array): readonly number[] {
  const order = orders.get(logits) ?? [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b);
  orders.set(logits, order);
  return order;
}

/**
 * The library's two ways to one row: documented calls get the whole row, and the context below
 * them does with a row what llama.cpp's samplers do.
 */
function fakeContext(row: () => Float32Array, { distort = 0, hasNative = true } = {}) {
  const reads = { whole: 0, head: 0, documented: 0 };
  const native: NativeContext = {
    sampleToken: async (_index, sampler, _probabilities, _confidence, wantsLogits, wantsTotal) => {
      const config = (sampler as FakeSampler).config;
      const logits = row().slice();
      // The order is that of the row without biases, which only exclude tokens.
      let kept: readonly number[] = orderOf(row());
      config.tokenBiasKeys?.forEach((id, at) => (logits[id]! += config.tokenBiasValues![at]!));
      if (config.tokenBiasKeys !== undefined) kept = kept.filter((id) => logits[id]! > -Infinity);
      const scaled = logits.map((logit) => logit / (config.temperature ?? 1));
      if (config.temperature !== undefined && config.topK !== undefined) kept = kept.slice(0, config.topK);
      if (wantsLogits === true) reads[config.topK === undefined ? "whole" : "head"]++;
      const most = scaled[kept[0]!]!;
      const total = kept.reduce((sum, id) => sum + Math.exp(scaled[id]! - most), 0) * (1 + distort);
      return [
        kept[0]!,
        undefined,
        undefined,
        wantsLogits === true ? kept.flatMap((id) => [id, scaled[id]!]) : undefined,
        wantsTotal ? total : undefined,
      ];
    },
  };
  class FakeSampler implements NativeSampler {
    config: NativeConfig = {};
    applyConfig(config: NativeConfig): void {
      this.config = config;
    }
  }
  const sequence = {
    controlledEvaluate: async (input: readonly LlamaInput[]): Promise<readonly LlamaRow[]> => {
      const last = input.at(-1)!;
      const logits = typeof last === "number" ? undefined : last[1].generateNext.logits;
      if (logits === true) {
        reads.documented++;
        return [{ next: { logits: new Map(row().entries()) } }];
      }
      const filter = [logits!.filter.tokens, false, false, false, 0];
      await native.sampleToken(0, new FakeSampler(), false, false, filter, false);
      return [{ next: {} }];
    },
  } as unknown as LlamaSequence;
  const context = { ...(hasNative && { _ctx: native }) } as unknown as LlamaContext;
  return { context, sequence, reads };
}

function logprobOf(logits: Float32Array, token: number, temperature: number): number {
  const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
  const sum = logits.reduce((total, logit) => total + Math.exp((logit - most) / temperature), 0);
  return (logits[token]! - most) / temperature - Math.log(sum);
}

type Sampled = { readonly token: number; readonly logprob: number; readonly logits: Float32Array };

async function draws(count: number, changed: Partial<GenerationParams>, options?: Parameters<typeof fakeContext>[1]) {
  let at = 0;
  let logits = peaked(at);
  const { context, sequence, reads } = fakeContext(() => logits, options);
  const rows = new Rows(context, vocabularySize);
  const { next: uniform } = createRandom(5);
  const sampled: Sampled[] = [];
  for (; at < count; at++) {
    logits = peaked(at);
    const choice = { params: { ...params, ...changed }, counts: new Map([[3, 1]]), uniform };
    sampled.push({ ...(await rows.next(sequence, [1, 2], choice)), logits });
  }
  return { sampled, reads };
}

describe("Rows", () => {
  test.each<Partial<GenerationParams>>([
    {},
    { temperature: 0.6 },
    { temperature: 1.3 },
    { topK: 1 },
    { topK: 20, topP: 0.8 },
    { minP: 0.05, temperature: 0.9 },
    { repetitionPenalty: 1.1, topK: 5 },
  ])("gives the logprob of the whole row, with %j", async (changed) => {
    const { sampled } = await draws(30, changed);
    for (const { token, logprob, logits } of sampled) {
      if (changed.repetitionPenalty !== undefined) logits[3]! *= logits[3]! > 0 ? 1 / 1.1 : 1.1;
      expect(Math.abs(logprob - logprobOf(logits, token, changed.temperature ?? 1))).toBeLessThan(1e-4);
      const rank = logits.filter((logit) => logit > logits[token]!).length;
      if (changed.topK !== undefined) expect(rank).toBeLessThan(changed.topK);
    }
  });

  test("reads a whole row once, and then only where the draw or the parameters need it", async () => {
    expect((await draws(30, { topK: 20 })).reads).toEqual({ whole: 1, head: 30, documented: 0 });
    expect((await draws(30, { repetitionPenalty: 1.2 })).reads).toEqual({ whole: 30, head: 0, documented: 0 });
    const { reads, sampled } = await draws(150, {});
    const outside = sampled.filter(({ token, logits }) => logits.filter((one) => one > logits[token]!).length >= 2048);
    expect(outside.length).toBeGreaterThan(0);
    expect(reads).toEqual({ whole: 1 + outside.length, head: 150, documented: 0 });
  });

  test("draws every part of the row as often as it is probable", async () => {
    const logits = peaked(0);
    const { context, sequence } = fakeContext(() => logits);
    const rows = new Rows(context, vocabularySize);
    const order = orderOf(logits);
    const isHead = new Set(order.slice(0, 2048));
    const shares = { first: 0, head: 0, tail: 0 };
    const partOf = (token: number) => (token === order[0] ? "first" : isHead.has(token) ? "head" : "tail");
    for (const token of logits.keys()) shares[partOf(token)] += Math.exp(logprobOf(logits, token, 1));
    const found = { first: 0, head: 0, tail: 0 };
    const count = 1000;
    // Equidistant numbers in place of random ones: the counts are then exact up to one draw.
    for (let at = 0; at < count; at++) {
      const { token } = await rows.next(sequence, [1], {
        params,
        counts: new Map(),
        uniform: () => (at + 0.5) / count,
      });
      found[partOf(token)]++;
    }
    for (const part of ["first", "head", "tail"] as const) {
      expect(Math.abs(found[part] - shares[part] * count)).toBeLessThanOrEqual(1.5);
    }
    expect(found.tail).toBeGreaterThan(2);
  });

  test("takes whole rows where too much weight is outside the head", async () => {
    const flat = Float32Array.from({ length: vocabularySize }, (_, id) => (id % 7) / 10);
    const { context, sequence, reads } = fakeContext(() => flat);
    const rows = new Rows(context, vocabularySize);
    const choice = { params, counts: new Map<number, number>(), uniform: () => 0.5 };
    await rows.next(sequence, [1], choice);
    const { token, logprob } = await rows.next(sequence, [1], choice);
    expect(logprob).toBeCloseTo(logprobOf(flat, token, 1), 5);
    expect(reads.whole).toBe(3);
  });

  test("returns to documented calls when a version of the library gives other sums, or has no such context", async () => {
    const distorted = await draws(10, {}, { distort: 1 });
    expect(distorted.reads).toEqual({ whole: 1, head: 1, documented: 9 });
    const absent = await draws(10, {}, { hasNative: false });
    expect(absent.reads).toEqual({ whole: 0, head: 0, documented: 10 });
    for (const { sampled } of [distorted, absent]) {
      for (const { token, logprob, logits } of sampled) expect(logprob).toBeCloseTo(logprobOf(logits, token, 1), 4);
    }
  });
});
