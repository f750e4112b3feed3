// A sampler out of a function from a request to token ids: whoever writes the function plays the model.

import type { Sampler, SamplerOptions, SamplerOutput, SamplerRequest } from "./sampler.ts";

export type SampledAnswer = {
  readonly ids: ArrayLike<number>;
  /** One per id. Default: {@link plainLogprob} of its place. */
  readonly logprobs?: ArrayLike<number>;
  /** Default "end". */
  readonly finish?: "end" | "length" | "abort";
  /** Default 0. */
  readonly cachedTokens?: number;
  /** Default `null`: the front's. */
  readonly weightVersion?: string | null;
};

export type SampleFunction = (
  request: SamplerRequest,
  options: { readonly signal: AbortSignal },
) => SampledAnswer | Promise<SampledAnswer>;

/** A logprob that can be told by its place and survives 32 bits unchanged: -1/8 to -1, again and again. */
export function plainLogprob(place: number): number {
  return -((place % 8) + 1) / 8;
}

/**
 * Makes a sampler. Tokens are announced one by one, so that streams have frames; a request that is aborted meanwhile keeps
 * those announced. What the function throws is answered with HTTP 500.
 */
export function createFunctionSampler(sample: SampleFunction): Sampler {
  return { sample: (request, options) => play(sample, request, options) };
}

async function play(sample: SampleFunction, request: SamplerRequest, options: SamplerOptions): Promise<SamplerOutput> {
  const { signal, onTokens } = options;
  const answer = await sample(request, { signal });
  const ids = Array.from(answer.ids);
  const logprobs = Array.from(answer.logprobs ?? ids.map((_, place) => plainLogprob(place)));
  let announced = 0;
  let isOpen = true;
  while (isOpen && announced < ids.length && !signal.aborted) {
    isOpen = onTokens(ids.slice(announced, announced + 1), logprobs.slice(announced, announced + 1)) === "continue";
    announced += 1;
  }
  return {
    ids: ids.slice(0, announced),
    logprobs: logprobs.slice(0, announced),
    finish: answer.finish ?? "end",
    cachedTokens: answer.cachedTokens ?? 0,
    weightVersion: answer.weightVersion ?? null,
  };
}
