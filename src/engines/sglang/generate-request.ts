// What is posted to /generate: parameters under the names SGLang knows, and the body around the serialized prompt.
// Never sends a name that was not asked for: an unknown sampling parameter is answered with a bare HTTP 500.

import type { SampleRequest } from "../../core/engine.ts";
import type { SamplingParams } from "../../core/sampling.ts";
import type { TokenBuffer } from "../../core/token-buffer.ts";
import { emptyOpening, GrowingBody, openingOf } from "./growing-body.ts";

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

const head = Buffer.from('{"input_ids":[');
/** Fewer ids in common are no opening worth sharing. */
const leastOpening = 256;
/** What two of three conversations need at most, in bytes beside the opening. */
const likelyBytes = 16_384;
/** Bodies that nobody reads are kept for the next calls, but not as many as a burst of them. */
const mostFree = 64;

/** A body to send. Give it back when nobody reads it any more, in every case. */
export type LentBody = { readonly bytes: Buffer; readonly giveBack: () => void };

/** Writes bodies; keeps the serialized prompts of the token buffers it has seen for as long as those live. */
export class GenerateBodyWriter {
  readonly #bodies = new WeakMap<TokenBuffer, GrowingBody>();
  readonly #free: Buffer[] = [];
  #opening = emptyOpening;

  /** The bytes of `JSON.stringify({ input_ids: [...prompt], ...fields })`. Throws what `JSON.stringify` throws. */
  lend(prompt: TokenBuffer, fields: GenerateFields): LentBody {
    const tail = `],${JSON.stringify(fields).slice(1)}`;
    const body = this.#bodyOf(prompt);
    const buffer = this.#take(head.length + body.grow(prompt) + Buffer.byteLength(tail));
    buffer.set(head);
    const idsEnd = body.copyTo(buffer, head.length);
    // The bracket takes the place of the last comma.
    const start = prompt.length === 0 ? idsEnd : idsEnd - 1;
    const length = start + buffer.write(tail, start);
    let isLent = true;
    const giveBack = (): void => {
      if (isLent && this.#free.length < mostFree) this.#free.push(buffer);
      isLent = false;
    };
    return { bytes: buffer.subarray(0, length), giveBack };
  }

  #bodyOf(prompt: TokenBuffer): GrowingBody {
    const known = this.#bodies.get(prompt);
    if (known !== undefined) return known;
    this.#opening = openingOf(prompt.view(), this.#opening, leastOpening);
    const fresh = new GrowingBody(this.#opening, likelyBytes);
    this.#bodies.set(prompt, fresh);
    return fresh;
  }

  #take(length: number): Buffer {
    const free = this.#free.pop();
    if (free !== undefined && free.length >= length) return free;
    return Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(length)));
  }
}
