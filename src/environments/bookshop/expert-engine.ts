// The expert as an engine in this process: the same loop, renderer and recorder as with a model, and no server. For
// dialogues to clone, simulations and tests.

import type { Engine } from "../../core/engine.ts";
import { createExpertSampler, type ExpertSamplerOptions } from "./expert-sampler.ts";

export type ExpertEngineOptions = ExpertSamplerOptions & {
  /** What its weights are called. Default `null`: it has none. */
  readonly weightVersion?: string | null;
};

/** Throws what `createExpertSampler` throws. */
export function createExpertEngine(options: ExpertEngineOptions): Engine {
  const { weightVersion: version = null } = options;
  const sampler = createExpertSampler(options);
  return {
    name: "expert",
    sample: async ({ prompt, sampling }) => {
      const { ids, logprobs } = await sampler.sample({ promptIds: prompt.view(), params: { seed: sampling.seed } });
      return {
        sampledTokens: Uint32Array.from(ids),
        logprobs: Float32Array.from(logprobs),
        finish: { reason: "stop", matched: null, raw: null },
        weightSpans: [{ tokenCount: ids.length, dispatch: version, reply: version }],
        usage: { promptTokens: prompt.length, completionTokens: ids.length, cachedTokens: null },
      };
    },
    close: async () => {},
  };
}
