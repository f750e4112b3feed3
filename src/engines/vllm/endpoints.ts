// The two endpoints of vLLM that take token ids and give token ids: what is posted to each. Left out on purpose: the chat
// endpoint, whose prompt is rendered by the server.

import type { SampleRequest, SamplingParams } from "../../core/engine.ts";

/**
 * "generate": `/inference/v1/generate`, ids in and ids out (servers since about 0.11.1). "completions": `/v1/completions`
 * with `return_token_ids` (since 0.10.2); it sends the prompt's ids back, so a turn costs its context once more.
 */
export type EndpointName = "generate" | "completions";

export type Endpoint = {
  readonly name: EndpointName;
  readonly path: string;
  /** What a body begins with; ids follow. */
  readonly head: Uint8Array;
  /** Everything of a body but the prompt. */
  fields(request: SampleRequest, options: BodyOptions): BodyFields;
};

export type BodyOptions = {
  /** Name of the served model or adapter; `null`: the server's first. */
  readonly model: string | null;
  readonly stream: boolean;
};

export type BodyFields = Readonly<Record<string, unknown>>;

export const generateEndpoint: Endpoint = {
  name: "generate",
  path: "/inference/v1/generate",
  head: Buffer.from('{"token_ids":['),
  fields: (request, options) => ({
    ...shared(request, options),
    sampling_params: toVllmSampling(request.sampling, request.stopTokenIds),
  }),
};

export const completionsEndpoint: Endpoint = {
  name: "completions",
  path: "/v1/completions",
  head: Buffer.from('{"prompt":['),
  fields: (request, options) => ({
    ...shared(request, options),
    return_token_ids: true,
    // Servers that do not know the name above still give ids under this one, in the place of tokens' texts.
    return_tokens_as_token_ids: true,
    ...toVllmSampling(request.sampling, request.stopTokenIds),
  }),
};

/**
 * Sampling parameters under vLLM's names. Every value is sent, because a server prefers those of the model's
 * `generation_config.json` to what is absent; `extra` goes last and as it is.
 */
export function toVllmSampling(sampling: SamplingParams, stopTokenIds: readonly number[]): BodyFields {
  return {
    // Null is as much as the context allows; absent would be 16.
    max_tokens: sampling.maxNewTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    // 0 is vLLM's word for the whole vocabulary.
    top_k: sampling.topK === -1 ? 0 : sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: stopTokenIds,
    // That of the sampled token, and no others.
    logprobs: 0,
    ...(sampling.seed === null ? {} : { seed: sampling.seed }),
    ...sampling.extra,
  };
}

function shared(request: SampleRequest, { model, stream }: BodyOptions): BodyFields {
  return {
    request_id: request.requestId,
    ...(model === null ? {} : { model }),
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  };
}

/** The bound that the reply must keep, whoever set it; `null`: none. */
export function maxTokensOf(request: SampleRequest): number | null {
  const most =
    "max_tokens" in request.sampling.extra ? request.sampling.extra["max_tokens"] : request.sampling.maxNewTokens;
  return typeof most === "number" ? most : null;
}
