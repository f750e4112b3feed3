// The demonstration policy: the bookshop's scripted expert behind the same protocol, over real HTTP, as a language model.
// Everything between it and the episode is what a rollout against SGLang uses.

import type { Tokenizer } from "../core/index.ts";
import { createExpertSampler } from "../environments/bookshop/index.ts";
import { createSglangFront, type FrontListener } from "../testing/index.ts";

export type ExpertServerOptions = {
  readonly tokenizer: Tokenizer;
  /** Ends an action. */
  readonly endTokenId: number;
  /** How often the expert errs at a turn, 0 to 1. */
  readonly noise: number;
};

/** Starts the server on a free port of this machine. */
export async function startExpertServer(options: ExpertServerOptions): Promise<FrontListener> {
  const { tokenizer, endTokenId, noise } = options;
  const front = createSglangFront({
    sampler: createExpertSampler({ tokenizer, noise }),
    tokenizer,
    modelPath: "bookshop-expert",
    endTokenIds: [endTokenId],
  });
  return front.listen();
}
