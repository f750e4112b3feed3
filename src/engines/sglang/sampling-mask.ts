// Kept ids in a reply to /generate with `return_sampling_mask`, and the logprobs over them: those in
// `output_token_logprobs` are over the whole vocabulary even then (0.5.23).

import type { SampleResult } from "../../core/engine.ts";
import { asFields, badReply, type FailureContext, readLogprob, readSamplingMask } from "../../http/index.ts";
import type { ParsedReply } from "./generate-reply.ts";

/** The result with kept ids and their logprobs. Throws an `AttributedError` with code "bad-reply". */
export function withSamplingMask(
  result: SampleResult,
  { value }: ParsedReply,
  { vocabularySize, context }: { readonly vocabularySize: number | null; readonly context: FailureContext },
): SampleResult {
  const meta = asFields(asFields(value)?.["meta_info"]);
  const { sampledTokens } = result;
  const remedy =
    "use SGLang 0.5.23 or newer, name the servers directly if a router leaves the field out, or do not request it";
  const samplingMask = readSamplingMask(meta?.["output_token_sampling_mask"], sampledTokens, {
    name: "meta_info.output_token_sampling_mask",
    vocabularySize,
    remedy,
    context,
  });
  const listed = meta?.["output_token_sampling_logprobs"] ?? (sampledTokens.length === 0 ? [] : null);
  if (!Array.isArray(listed) || listed.length !== sampledTokens.length) {
    const count = Array.isArray(listed) ? listed.length : "no";
    const state = `output_token_sampling_logprobs has ${count} entries for ${sampledTokens.length} sampled tokens`;
    throw badReply(context, state, { retryable: false, remedy });
  }
  const logprobs = Float32Array.from(listed, (logprob: unknown, index) => readLogprob(logprob, index, context));
  return { ...result, logprobs, samplingMask, isRenormalized: true };
}
