// The comparison that real servers pass: our own engine passes it, and logprobs with another
// meaning fail it.

import { expect, test } from "vitest";
import { loadEmbeddedEngine } from "../../src/engines/embedded/index.ts";
import { shippedCheckpoint } from "../../src/learner/model/index.ts";
import type { SglangEngine } from "../../src/engines/sglang/index.ts";
import { compareSampled } from "./sampled-logprobs.mjs";

const folder = shippedCheckpoint("bookshop-nano");
const options = {
  folder,
  prompt: Uint32Array.from({ length: 40 }, (_, place) => 3 + place),
  penalizesPrompt: false,
  extraOf: ({
    frequencyPenalty,
    presencePenalty,
    logitBias,
  }: Parameters<Parameters<typeof compareSampled>[1]["extraOf"]>[0]) => ({
    ...(frequencyPenalty === undefined ? {} : { frequency_penalty: frequencyPenalty }),
    ...(presencePenalty === undefined ? {} : { presence_penalty: presencePenalty }),
    ...(logitBias === undefined ? {} : { logit_bias: Object.fromEntries(logitBias) }),
  }),
};

test("compareSampled() accepts logprobs after temperature and penalties, and no others", async () => {
  const engine = (await loadEmbeddedEngine(folder, { threads: 1 })) as unknown as SglangEngine;
  try {
    expect(await compareSampled(engine, { ...options, mode: "processed" })).toMatch(
      /^132 tokens under 11 sets of parameters/,
    );
    await expect(compareSampled(engine, { ...options, mode: "raw" })).rejects.toThrow(/"temperature":0.5.*expected/);
  } finally {
    await engine.close();
  }
});

test("compareSampled() refuses a token that is cut off", async () => {
  const engine = (await loadEmbeddedEngine(folder, { threads: 1 })) as unknown as SglangEngine;
  // A server that silently ignores the bounds.
  const careless = {
    sample: (request: Parameters<SglangEngine["sample"]>[0]) =>
      engine.sample({
        ...request,
        sampling: { ...request.sampling, topK: -1, topP: 1, minP: 0, seed: 1 },
      }),
  } as unknown as SglangEngine;
  try {
    await expect(compareSampled(careless, { ...options, mode: "processed" })).rejects.toThrow(/is cut off/);
  } finally {
    await engine.close();
  }
});
