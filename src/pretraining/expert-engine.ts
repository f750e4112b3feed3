// The scripted expert of the bookshop as an engine, in this process: dialogues to clone come from the same loop, renderer and
// recorder as those of a model.

import type { Engine, Tokenizer } from "../core/index.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";

/** `noise`: probability of a mistake at each action. `seed`: which mistakes. */
export function expertEngine(tokenizer: Tokenizer, options: { readonly noise: number; readonly seed: number }): Engine {
  const sampler = createExpertSampler({ tokenizer, ...options });
  return {
    name: "expert",
    sample: async ({ prompt, sampling }) => {
      const params = { seed: sampling.seed };
      const { ids, logprobs } = await sampler.sample({ promptIds: prompt.view(), params });
      return {
        sampledTokens: Uint32Array.from(ids),
        logprobs: Float32Array.from(logprobs),
        finish: { reason: "stop", matched: null, raw: null },
        weightSpans: [{ tokenCount: ids.length, dispatch: null, reply: null }],
        usage: { promptTokens: prompt.length, completionTokens: ids.length, cachedTokens: null },
      };
    },
    close: async () => {},
  };
}
