// The expert as a sampler that continues token ids: it decodes the prompt that it receives, reads
// only the text, and encodes its action. The engine samples in this process, without a server. The
// sampler has the shape that `testing` serves through its protocol fronts, so that a server can
// answer as the expert does; environments import nothing from `testing`.

import { type Engine, firstStop } from "../../core/engine.ts";
import { AttributedError, ConfigurationError } from "../../core/failure.ts";
import type { Tokenizer } from "../../core/tokenizer.ts";
import { deriveSeed } from "../../lib/random.ts";
import { expertAction, type ExpertOptions } from "./expert.ts";

export type ExpertEngineOptions = ExpertSamplerOptions & {
  /** Version of its weights, which never change. Default `null`: the engine reports no version. */
  readonly weightVersion?: string | null;
};

/**
 * The expert as an in-process engine. It follows two sampling parameters, `maxNewTokens` and
 * `seed`; an action that reaches the token limit ends with "length". Throws what
 * `createExpertSampler` throws.
 */
export function createExpertEngine(options: ExpertEngineOptions): Engine {
  const { weightVersion: version = null } = options;
  const sampler = createExpertSampler(options);
  return {
    name: "expert",
    sample: async ({ prompt, sampling, stopTokenIds, stopStrings = null }, { signal } = {}) => {
      if (signal?.aborted === true) throw cancelled();
      const { ids, logprobs } = await sampler.sample({ promptIds: prompt.view(), params: { seed: sampling.seed } });
      const stop = stopStrings === null ? null : firstStop(ids, stopStrings);
      const whole = stop?.count ?? ids.length;
      const count = Math.min(whole, sampling.maxNewTokens ?? whole);
      const last = ids[count - 1];
      const matched = stop?.matched ?? (last !== undefined && stopTokenIds.includes(last) ? last : null);
      const isCut = count === sampling.maxNewTokens;
      return {
        sampledTokens: Uint32Array.from(ids.slice(0, count)),
        logprobs: Float32Array.from(logprobs.slice(0, count)),
        finish: { reason: isCut ? "length" : "stop", matched: isCut ? null : matched, raw: null },
        weightSpans: [{ tokenCount: count, dispatch: version, reply: version }],
        usage: { promptTokens: prompt.length, completionTokens: count, cachedTokens: 0 },
      };
    },
    close: async () => {},
  };
}

function cancelled(): AttributedError {
  const message = "Cannot sample from the expert: the caller cancelled it.";
  return new AttributedError({ boundary: "engine", code: "cancelled", message, retryable: false, cause: null });
}

export type ExpertSamplerOptions = ExpertOptions & {
  /**
   * Returns the action for a prompt; must be a function of the prompt, noise and seed. Default: the
   * bookshop's expert.
   */
  readonly act?: (prompt: string, options: ExpertOptions) => { readonly text: string; readonly probability: number };
  /** Tokenizer of the model family that the prompts are rendered for; it must know `<|im_end|>`. */
  readonly tokenizer: Tokenizer;
};

export type ExpertRequest = {
  readonly promptIds: Uint32Array;
  /**
   * `seed` enters the choice of mistakes, so that several actions for one prompt differ; `null`:
   * all are equal.
   */
  readonly params: { readonly seed: number | null };
};

export type ExpertOutput = {
  /** The action and its end token. */
  readonly ids: readonly number[];
  /**
   * One per id. A fixed model: the first token carries the probability of the whole action under
   * the mixture of the right action and its mistakes, and every later token is certain (0). So the
   * sum is exact, and only its distribution over the tokens is invented.
   */
  readonly logprobs: readonly number[];
  readonly finish: "end";
  readonly cachedTokens: number;
  readonly weightVersion: null;
};

export interface ExpertSampler {
  sample(request: ExpertRequest): Promise<ExpertOutput>;
}

const actionStart = "<|im_start|>assistant\n";

/**
 * Answers prompts in ChatML. A prompt that ends within an action (an aborted turn that resumes) is
 * continued where it stopped. The same ids, seeds and noise give the same output, in any order of
 * calls. Throws a `ConfigurationError` for a tokenizer without `<|im_end|>`, and a `RangeError` for
 * a noise or habit outside 0 to 1.
 */
export function createExpertSampler({
  tokenizer,
  noise = 0,
  habit = 0,
  seed = 0,
  act = expertAction,
}: ExpertSamplerOptions): ExpertSampler {
  const endId = tokenizer.tokenId("<|im_end|>");
  if (endId === null) {
    throw new ConfigurationError(
      `Cannot run the expert with tokenizer "${tokenizer.name}": it has no token "<|im_end|>"; use one of a ChatML family.`,
    );
  }
  // Throws for a share out of bounds here rather than at the first request.
  act("", { noise, habit });

  return {
    sample: async ({ promptIds, params }) => {
      const text = tokenizer.decode(promptIds);
      const start = text.lastIndexOf(actionStart);
      const prompt = start === -1 ? text : text.slice(0, start + actionStart.length);
      const begun = start === -1 ? "" : withoutThinking(text.slice(start + actionStart.length));
      const mixed = deriveSeed(seed, "sampling", params.seed ?? "none");
      const chosen = act(prompt, { noise, habit, habitSeed: seed, seed: mixed });
      const action = chosen.text.startsWith(begun) ? chosen : act(prompt, {});
      const rest = action.text.startsWith(begun) ? action.text.slice(begun.length) : "";
      const ids = [...tokenizer.encode(rest), endId];
      const logprobs = ids.map((_, index) => (index === 0 && begun === "" ? Math.log(action.probability) : 0));
      return { ids, logprobs, finish: "end", cachedTokens: 0, weightVersion: null };
    },
  };
}

/** Removes the empty thought with which templates of hybrid models begin an action without thinking. */
function withoutThinking(text: string): string {
  return text.replace(/^<think>[\s\S]*?<\/think>\s*/, "");
}
