// The two endpoints of vLLM that take token ids and give token ids: what is posted to each. Left out on purpose: the chat
// endpoint, whose prompt is rendered by the server.

import type { SampleRequest, SamplingParams } from "../../core/engine.ts";
import { type EngineServer, GrowingBodies, type HttpCallOptions, isMissing } from "../../http/index.ts";

/**
 * "generate": `/inference/v1/generate`, ids in and ids out (servers since about 0.11.1). "completions": `/v1/completions`
 * with `return_token_ids` (since 0.10.2); it sends the prompt's ids back, so a turn costs its context once more.
 */
export type EndpointName = "generate" | "completions";

export type Endpoint = {
  readonly name: EndpointName;
  readonly path: string;
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
  fields: (request, options) => ({
    ...shared(request, options),
    sampling_params: toVllmSampling(request),
  }),
};

export const completionsEndpoint: Endpoint = {
  name: "completions",
  path: "/v1/completions",
  fields: (request, options) => ({
    ...shared(request, options),
    return_token_ids: true,
    // Servers that do not know the name above still give ids under this one, in the place of tokens' text.
    return_tokens_as_token_ids: true,
    ...toVllmSampling(request),
  }),
};

/**
 * Sampling parameters under vLLM's names. Every value is sent, because a server prefers those of the model's
 * `generation_config.json` to what is absent; `extra` goes last and as it is.
 */
export function toVllmSampling({
  sampling,
  stopTokenIds,
  stopStrings = null,
}: Pick<SampleRequest, "sampling" | "stopTokenIds" | "stopStrings">): BodyFields {
  return {
    // Null is as much as the context allows; absent would be 16.
    max_tokens: sampling.maxNewTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    // 0 is the whole vocabulary in vLLM.
    top_k: sampling.topK === -1 ? 0 : sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: stopTokenIds,
    ...(stopStrings === null ? {} : { stop: stopStrings.strings }),
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

/** The bound that the reply must keep, wherever it was set; `null`: none. */
export function maxTokensOf(request: SampleRequest): number | null {
  const most =
    "max_tokens" in request.sampling.extra ? request.sampling.extra["max_tokens"] : request.sampling.maxNewTokens;
  return typeof most === "number" ? most : null;
}

/** Bodies of an endpoint: its fields follow the prompt. */
export function createBodies({ name }: Endpoint): GrowingBodies {
  return new GrowingBodies(Buffer.from(name === "generate" ? '{"token_ids":[' : '{"prompt":['));
}

/**
 * The endpoint that a server has, found by an empty body that samples nothing: the endpoint of ids refuses it as invalid (400,
 * 422) where it is served, and in other ways where it is not (404; 403 since 0.32, unless it was enabled). Rejects with an
 * `AttributedError` when the server says neither.
 */
export async function findEndpoint(server: EngineServer, options: HttpCallOptions): Promise<Endpoint> {
  const { path } = generateEndpoint;
  const answer = await server.send(server.request(path, "{}"), options);
  if (isMissing(answer)) return completionsEndpoint;
  if (answer.status === 403 && isDisabled(answer.body.toString())) return completionsEndpoint;
  if (answer.status === 400 || answer.status === 422) return generateEndpoint;
  throw server.refusal(answer, server.context("look for the endpoint of", path));
}

/** The endpoint of ids exists, but the server was started without it. */
export function isDisabled(message: string): boolean {
  return /endpoints are disabled/i.test(message);
}

export type VllmWarning = {
  readonly code: "raw-logprobs";
  readonly message: string;
};

/** Names in `sampling.extra` that change what is sampled from, with the values that do not. */
const neutral: Readonly<Record<string, unknown>> = {
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
  frequency_penalty: 0,
  presence_penalty: 0,
  min_tokens: 0,
  logit_bias: null,
  bad_words: null,
  allowed_token_ids: null,
  structured_outputs: null,
};

/**
 * Whether the logprobs that vLLM reports are those of the distribution it sampled from. By default they are not: the server
 * reports the model's own, before temperature, penalties and cuts (--logprobs-mode raw_logprobs). The two agree only while
 * nothing of that is requested; what a trainer takes for the probability of its own sample must be the processed one.
 * Gives the warning that these parameters require on a server with raw logprobs, `null` when its logprobs are right.
 */
export function rawLogprobsWarning(sampling: SamplingParams): VllmWarning | null {
  const distorting = distortions(sampling);
  if (distorting.length === 0) return null;
  return {
    code: "raw-logprobs",
    message:
      `Logprobs from vLLM are not those of the sampled distribution: ${distorting.join(", ")} changes what is sampled, and the ` +
      'server reports logprobs from before that by default; start it with --logprobs-mode processed_logprobs and set logprobsMode to "processed".',
  };
}

function distortions(sampling: SamplingParams): readonly string[] {
  const { temperature, topP, topK, minP, repetitionPenalty, extra } = sampling;
  const requested: Readonly<Record<string, unknown>> = {
    temperature,
    top_p: topP,
    top_k: topK === -1 ? 0 : topK,
    min_p: minP,
    repetition_penalty: repetitionPenalty,
    ...extra,
  };
  return Object.keys(neutral).filter((name) => {
    const value = requested[name];
    if (value === undefined || value === null || value === neutral[name]) return false;
    return !(name === "top_k" && value === -1);
  });
}
