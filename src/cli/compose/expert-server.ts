// The demonstration policy: the bookshop's scripted expert behind the same protocol, over real HTTP, as a language model.
// Everything between it and the episode is what a rollout against SGLang uses.

import type { Tokenizer } from "../../core/index.ts";
import { expertAction } from "../../environments/bookshop/index.ts";
import { createSglangFront, type FrontListener, type Sampler } from "../../testing/index.ts";

export type ExpertServerOptions = {
  readonly tokenizer: Tokenizer;
  /** Ends an action. */
  readonly endTokenId: number;
  /** How often the expert errs at a turn, 0 to 1. */
  readonly noise: number;
};

/** Starts the server on a free port of this machine. */
export async function startExpertServer(options: ExpertServerOptions): Promise<FrontListener> {
  const { tokenizer, endTokenId } = options;
  const front = createSglangFront({
    sampler: expertSampler(options),
    tokenizer,
    modelPath: "bookshop-expert",
    endTokenIds: [endTokenId],
  });
  return front.listen();
}

/**
 * Reads nothing but the text of the prompt and answers with token ids. The log probability of an action stands on its first
 * token; the others follow from it.
 */
export function expertSampler({ tokenizer, endTokenId, noise }: ExpertServerOptions): Sampler {
  return {
    sample: async ({ promptIds, params }) => {
      const { text, probability } = expertAction(tokenizer.decode(promptIds), { noise, seed: params.seed ?? 0 });
      const ids = [...tokenizer.encode(text), endTokenId];
      const logprobs = new Float64Array(ids.length);
      logprobs[0] = Math.log(probability);
      return { ids, logprobs, finish: "end", cachedTokens: 0, weightVersion: null };
    },
  };
}
