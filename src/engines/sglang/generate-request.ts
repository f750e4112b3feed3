// The request to /generate: SGLang's names, around the serialized prompt. A name that was not
// requested is never sent, because the server answers an unknown one with a bare HTTP 500.

import type { SampleRequest } from "../../core/engine.ts";
import { GrowingBodies, type NativeConstraint } from "../../http/index.ts";

/** Everything of the body but the prompt. */
export type GenerateFields = {
  readonly rid: string;
  readonly sampling_params: Readonly<Record<string, unknown>>;
  readonly return_logprob: true;
  readonly stream: boolean;
  readonly lora_path?: string;
  /** Both are set only if experts are requested. */
  readonly return_routed_experts?: true;
  readonly routed_experts_start_len?: number;
  /** Set only if kept ids are requested. */
  readonly return_sampling_mask?: true;
};

/**
 * Sampling parameters under SGLang's names. Every value is sent, because the defaults of servers
 * may differ; `extra` comes last and unchanged. Text is requested untrimmed (end token and special
 * tokens included), for readable logs.
 */
export function toSglangSampling({
  sampling,
  stopTokenIds,
  stopStrings = null,
}: Pick<SampleRequest, "sampling" | "stopTokenIds" | "stopStrings">): Readonly<Record<string, unknown>> {
  return {
    max_new_tokens: sampling.maxNewTokens,
    temperature: sampling.temperature,
    top_p: sampling.topP,
    top_k: sampling.topK,
    min_p: sampling.minP,
    repetition_penalty: sampling.repetitionPenalty,
    stop_token_ids: stopTokenIds,
    ...(stopStrings === null ? {} : { stop: stopStrings.strings }),
    skip_special_tokens: false,
    spaces_between_special_tokens: false,
    no_stop_trim: true,
    // Takes effect only with --enable-deterministic-inference.
    ...(sampling.seed === null ? {} : { sampling_seed: sampling.seed }),
    ...sampling.extra,
  };
}

/** Parameter of a grammar. A schema is sent as text, because the server refuses an object. */
export function sglangGrammar({ type, text }: NativeConstraint): Readonly<Record<string, unknown>> {
  return { [{ json: "json_schema", regex: "regex", ebnf: "ebnf", "structural-tag": "structural_tag" }[type]]: text };
}

export function toGenerateFields(request: SampleRequest, stream: boolean, lora: string | null = null): GenerateFields {
  const from = request.routedExpertsFrom ?? null;
  return {
    rid: request.requestId,
    sampling_params: toSglangSampling(request),
    return_logprob: true,
    stream,
    ...(lora === null ? {} : { lora_path: lora }),
    ...(from === null ? {} : { return_routed_experts: true as const }),
    ...(from === null || from === 0 ? {} : { routed_experts_start_len: from }),
    ...(request.samplingMask === true ? { return_sampling_mask: true as const } : {}),
  };
}

/** Bodies of /generate; see {@link toGenerateFields} for the fields after the prompt. */
export function createGenerateBodies(): GrowingBodies {
  return new GrowingBodies(Buffer.from('{"input_ids":['));
}
