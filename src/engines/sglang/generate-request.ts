// What is posted to /generate: parameters under the names SGLang knows, and the body around the serialized prompt.
// Never sends a name that was not asked for: an unknown sampling parameter is answered with a bare HTTP 500.

import type { SampleRequest, SamplingParams } from "../../core/engine.ts";
import type { TokenBuffer } from "../../core/token-buffer.ts";
import { GrowingBodies, type LentBody } from "../../http/index.ts";

/** Everything of the body but the prompt. */
export type GenerateFields = {
  readonly rid: string;
  readonly sampling_params: Readonly<Record<string, unknown>>;
  readonly return_logprob: true;
  readonly stream: boolean;
};

/**
 * Sampling parameters under SGLang's names. Every value is sent, because a server may prefer others; `extra` goes last and
 * as it is. Text is asked for untrimmed (end token and special tokens included), as people read it in logs.
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
  return {
    rid: request.requestId,
    sampling_params: toSglangSampling(request.sampling, request.stopTokenIds),
    return_logprob: true,
    stream,
  };
}

/** Writes bodies; keeps the serialized prompts of the token buffers it has seen until those are closed or gone. */
export class GenerateBodyWriter {
  readonly #bodies = new GrowingBodies(Buffer.from('{"input_ids":['));

  /** The bytes of `JSON.stringify({ input_ids: [...prompt], ...fields })`. Throws what `JSON.stringify` throws. */
  lend(prompt: TokenBuffer, fields: GenerateFields): LentBody {
    return this.#bodies.lend(prompt, `],${JSON.stringify(fields).slice(1)}`);
  }
}
