// What is posted to /generate: parameters under the names SGLang knows, and the body around the serialized prompt.
// Never sends a name that was not requested: an unknown sampling parameter is answered with a bare HTTP 500.

import type { SampleRequest, SamplingParams } from "../../core/engine.ts";
import { GrowingBodies } from "../../http/index.ts";

/** Everything of the body but the prompt. */
export type GenerateFields = {
  readonly rid: string;
  readonly sampling_params: Readonly<Record<string, unknown>>;
  readonly return_logprob: true;
  readonly stream: boolean;
  /** Both only where experts are requested. */
  readonly return_routed_experts?: true;
  readonly routed_experts_start_len?: number;
};

/**
 * Sampling parameters under SGLang's names. Every value is sent, because a server may prefer others; `extra` goes last and
 * as it is. Text is requested untrimmed (end token and special tokens included), as people read it in logs.
 */
export function toSglangSampling(
  sampling: SamplingParams,
  stopTokenIds: readonly number[],
): Readonly<Record<string, unknown>> {
  return {
    max_new_tokens: sampling.maxNewTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: stopTokenIds,
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
    no_stop_trim: true,
    // Takes effect with --enable-deterministic-inference only.
    ...(sampling.seed === null ? {} : { sampling_seed: sampling.seed }),
    ...sampling.extra,
  };
}

export function toGenerateFields(request: SampleRequest, stream: boolean): GenerateFields {
  const from = request.routedExpertsFrom ?? null;
  return {
    rid: request.requestId,
    sampling_params: toSglangSampling(request.sampling, request.stopTokenIds),
    return_logprob: true,
    stream,
    ...(from === null ? {} : { return_routed_experts: true as const }),
    ...(from === null || from === 0 ? {} : { routed_experts_start_len: from }),
  };
}

/** Bodies of /generate; see {@link toGenerateFields} for what follows the prompt. */
export function createGenerateBodies(): GrowingBodies {
  return new GrowingBodies(Buffer.from('{"input_ids":['));
}
