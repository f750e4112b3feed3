// The two endpoints of vLLM that take and return token ids, and the request body of each. The chat
// endpoint is omitted on purpose, because the server renders its prompt.

import { type SampleRequest, type SamplingParams } from "../../core/engine.ts";
import { truncationOf } from "../../core/truncation.ts";
import {
  type EngineServer,
  GrowingBodies,
  type HttpCallOptions,
  isMissing,
  type NativeConstraint,
} from "../../http/index.ts";

/**
 * "generate": `/inference/v1/generate`, ids in and ids out (servers since about 0.11.1).
 * "completions": `/v1/completions` with `return_token_ids` (since 0.10.2); it returns the ids of
 * the prompt too, so a turn transfers its context twice.
 */
export type EndpointName = "generate" | "completions";

export type Endpoint = {
  readonly name: EndpointName;
  readonly path: string;
  /** Everything of a body but the prompt. */
  fields(request: SampleRequest, options: BodyOptions): BodyFields;
};

export type BodyOptions = {
  /** Name of the served model or adapter; `null` selects the server's first. */
  readonly model: string | null;
  readonly stream: boolean;
};

export type BodyFields = Readonly<Record<string, unknown>>;

export const generateEndpoint: Endpoint = {
  name: "generate",
  path: "/inference/v1/generate",
  fields: (request, options) => ({
    ...shared(request, options),
    sampling_params: {
      ...toVllmSampling(request),
      ...((request.routedExpertsFrom ?? 0) === 0 ? {} : { routed_experts_prompt_start: request.routedExpertsFrom }),
    },
  }),
};

export const completionsEndpoint: Endpoint = {
  name: "completions",
  path: "/v1/completions",
  fields: (request, options) => ({
    ...shared(request, options),
    return_token_ids: true,
    // Servers that do not know the parameter above still return ids with this one, in place of the
    // tokens' text.
    return_tokens_as_token_ids: true,
    ...toVllmSampling(request),
  }),
};

/**
 * Sampling parameters under vLLM's names. Every value is sent, because a server uses the model's
 * `generation_config.json` for missing ones; `extra` comes last and unchanged.
 */
export function toVllmSampling({
  sampling,
  stopTokenIds,
  stopStrings = null,
}: Pick<SampleRequest, "sampling" | "stopTokenIds" | "stopStrings">): BodyFields {
  return {
    // Null means up to the context length; the default would be 16.
    max_tokens: sampling.maxNewTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    // 0 stands for the whole vocabulary in vLLM.
    top_k: sampling.topK === -1 ? 0 : sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: stopTokenIds,
    ...(stopStrings === null ? {} : { stop: stopStrings.strings }),
    // Requests only the logprob of the sampled token.
    logprobs: 0,
    ...(sampling.seed === null ? {} : { seed: sampling.seed }),
    ...sampling.extra,
  };
}

/** Parameter of a grammar. */
export function vllmGrammar({ type, text }: NativeConstraint): BodyFields {
  switch (type) {
    case "json":
      return { structured_outputs: { json: JSON.parse(text) as unknown } };
    case "regex":
      return { structured_outputs: { regex: text } };
    case "ebnf":
      return { structured_outputs: { grammar: text } };
    case "structural-tag":
      return { structured_outputs: { structural_tag: text } };
    default:
      return type satisfies never;
  }
}

function shared(request: SampleRequest, { model, stream }: BodyOptions): BodyFields {
  return {
    request_id: request.requestId,
    ...(model === null ? {} : { model }),
    stream,
    ...(stream ? { stream_options: { include_usage: true } } : {}),
  };
}

/**
 * The token limit that the reply must respect, from either place where it can be set; `null` if
 * there is none.
 */
export function maxTokensOf(request: SampleRequest): number | null {
  const most =
    "max_tokens" in request.sampling.extra ? request.sampling.extra["max_tokens"] : request.sampling.maxNewTokens;
  return typeof most === "number" ? most : null;
}

/** Bodies for an endpoint: its other fields follow the prompt. */
export function createBodies({ name }: Endpoint): GrowingBodies {
  return new GrowingBodies(Buffer.from(name === "generate" ? '{"token_ids":[' : '{"prompt":['));
}

/**
 * Detects which endpoint a server has, by an empty body that samples nothing: the token-id endpoint
 * rejects it as invalid (400, 422) if it is served, and with another status otherwise (404; 403
 * since 0.32, unless it was enabled). Rejects with an `AttributedError` if the answer fits neither
 * case.
 */
export async function findEndpoint(server: EngineServer, options: HttpCallOptions): Promise<Endpoint> {
  const { path } = generateEndpoint;
  const answer = await server.send(server.request(path, "{}"), options);
  if (isMissing(answer)) return completionsEndpoint;
  if (answer.status === 403 && isDisabled(answer.body.toString())) return completionsEndpoint;
  if (answer.status === 400 || answer.status === 422) return generateEndpoint;
  throw server.refusal(answer, server.context("look for the endpoint of", path));
}

/** True if the token-id endpoint exists, but was not enabled when the server started. */
export function isDisabled(message: string): boolean {
  return /endpoints are disabled/i.test(message);
}

export type VllmWarning = {
  readonly code: "raw-logprobs";
  readonly message: string;
};

/**
 * Names in `sampling.extra` that change the sampled distribution, with the values that do not.
 * Grammars are not among them: the server applies them before it takes raw logprobs (0.32).
 */
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
};

/**
 * Checks whether the logprobs that vLLM reports belong to the distribution it sampled from. By
 * default they do not: the server reports those of the raw model, before temperature, penalties and
 * truncation (--logprobs-mode raw_logprobs). The two agree only if none of these is requested; a
 * trainer needs the processed logprobs as the probabilities of its own samples. Returns the warning
 * that these parameters require on a server with raw logprobs, `null` if its logprobs are right.
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

/** The clause of `Engine.samplingMaskProblem`. `endpoint`: that of the engine, `null` before its detection. */
export function vllmMaskProblem(
  sampling: SamplingParams,
  { isProcessed, endpoint }: { readonly isProcessed: boolean; readonly endpoint: EndpointName | null },
): string | null {
  const { temperature, topK } = truncationOf(sampling);
  if (endpoint === "completions") {
    return "vLLM reports kept ids only at /inference/v1/generate; pass --endpoint generate";
  }
  if (!isProcessed) {
    return "logprobs of vLLM are of the whole distribution; start it with --return-sampling-mask --logprobs-mode processed_logprobs, and pass --logprobs-mode processed";
  }
  if (topK > 0 && temperature > 0) return null;
  return `vLLM reports kept ids only for a top-k of 1 or more and a temperature above 0, and they are ${topK} and ${temperature}; set --top-k and --temperature`;
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
