// Our engine around llama.cpp against our own engine, on one model: the contract's checks, and the
// same prompts sampled by both. Greedy answers must be equal, and logprobs of the same tokens
// within the tolerance; at temperature 1 both draw from one seed with the same code, so answers
// diverge only where floating-point rounding decides.

import { TokenBuffer } from "../../dist/core/index.js";
import { loadEmbeddedEngine } from "../../dist/engines/embedded/index.js";
import { createLlamaCppEngine } from "../../dist/engines/llama-cpp/index.js";
import { engineConformance } from "../../dist/testing/index.js";
import { loadModelFolder } from "../../dist/tokenizers/index.js";

const maxNewTokens = 32;

/**
 * @param {object} given
 * @param {import("./reference.mjs").Reference} given.reference
 * @param {string} given.modelPath The same model as GGUF.
 * @param {import("../../dist/engines/llama-cpp/index.js").LlamaLibrary} given.library
 * @param {number} given.tolerance Largest difference of a logprob.
 */
export async function compareEngines({ reference, modelPath, library, tolerance }) {
  // Its cache holds keys and values in 16 bits by default.
  const open = () =>
    createLlamaCppEngine({
      modelPath,
      library,
      gpu: false,
      cacheBits: 32,
      threads: 1,
      sequences: 4,
      contextTokens: 2048,
    });
  const promptIds = reference.cases[0]?.ids.slice(0, 12) ?? [];
  const conformance = await checkContract(open, promptIds);
  const [theirs, ours] = [await open(), await loadEmbeddedEngine(reference.folder, { threads: 1 })];
  let [largest, compared, sameGreedy, sameSampled, sameAgain] = [0, 0, 0, 0, 0];
  const { cases } = reference;
  const endTokenId = (await loadModelFolder(reference.folder)).tokenizer.tokenId("<|im_end|>") ?? -1;
  for (const temperature of [0, 1]) {
    await Promise.all(
      cases.map(async ({ ids }, index) => {
        const request = {
          prompt: TokenBuffer.from(ids),
          sampling: {
            temperature,
            topP: 1,
            topK: -1,
            minP: 0,
            maxNewTokens,
            repetitionPenalty: 1,
            seed: index,
            extra: {},
          },
          stopTokenIds: [endTokenId],
          requestId: `case-${index}`,
          routingKey: `case-${index}`,
        };
        const [one, other, again] = [
          await theirs.sample(request),
          await ours.sample(request),
          await theirs.sample(request),
        ];
        const isSame = one.sampledTokens.join() === other.sampledTokens.join();
        if (isSame && temperature === 0) sameGreedy++;
        if (isSame && temperature === 1) sameSampled++;
        if (again.sampledTokens.join() === one.sampledTokens.join() && (again.usage.cachedTokens ?? 0) > 0) sameAgain++;
        for (const [place, token] of one.sampledTokens.entries()) {
          if (token !== other.sampledTokens[place]) break;
          const difference = Math.abs((one.logprobs?.[place] ?? NaN) - (other.logprobs?.[place] ?? NaN));
          largest = Number.isFinite(difference) ? Math.max(largest, difference) : Infinity;
          compared++;
        }
      }),
    );
  }
  await Promise.all([theirs.close(), ours.close()]);
  const count = cases.length;
  return {
    engine: "llama-cpp",
    contractChecks: conformance,
    prompts: count,
    logprobs: compared,
    largestDifference: Number(largest.toPrecision(3)),
    tolerance,
    equalGreedyAnswers: sameGreedy,
    equalSampledAnswers: sameSampled,
    equalAnswersFromCache: sameAgain,
    passed: largest <= tolerance && compared > count && sameGreedy === count && sameAgain === 2 * count,
  };
}

/**
 * Rejects with the first check that fails.
 *
 * @param {() => Promise<import("../../dist/engines/llama-cpp/index.js").LlamaCppEngine>} open
 * @param {readonly number[]} promptIds
 */
async function checkContract(open, promptIds) {
  const checks = engineConformance({
    unscripted: "a model says what it says",
    uncontrolled: "weights are never changed",
    impossible: {},
    promptIds,
    open: async () => ({ engine: await open(), control: null, begun: async () => {}, close: async () => {} }),
  });
  let passed = 0;
  for (const { skip, run } of checks) {
    if (skip !== null) continue;
    await run();
    passed++;
  }
  return passed;
}
