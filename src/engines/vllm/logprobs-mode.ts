// Whether the logprobs that vLLM reports are those of the distribution it sampled from. By default they are not: the server
// reports the model's own, before temperature, penalties and cuts (--logprobs-mode raw_logprobs). The two agree only while
// nothing of that is asked for. What a trainer takes for the probability of its own sample must be the processed one.

import type { SamplingParams } from "../../core/engine.ts";

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

/** The warning that these parameters call for on a server with raw logprobs; `null` when its logprobs are the right ones. */
export function rawLogprobsWarning(sampling: SamplingParams): VllmWarning | null {
  const distorting = distortions(sampling);
  if (distorting.length === 0) return null;
  return {
    code: "raw-logprobs",
    message:
      `Logprobs from vLLM are not those of the sampled distribution: ${distorting.join(", ")} changes what is sampled, and the ` +
      'server reports logprobs from before that unless told otherwise; start it with --logprobs-mode processed_logprobs and set logprobsMode to "processed".',
  };
}

function distortions(sampling: SamplingParams): readonly string[] {
  const { temperature, topP, topK, minP, repetitionPenalty, extra } = sampling;
  const asked: Readonly<Record<string, unknown>> = {
    temperature,
    top_p: topP,
    top_k: topK === -1 ? 0 : topK,
    min_p: minP,
    repetition_penalty: repetitionPenalty,
    ...extra,
  };
  return Object.keys(neutral).filter((name) => {
    const value = asked[name];
    if (value === undefined || value === null || value === neutral[name]) return false;
    return !(name === "top_k" && value === -1);
  });
}
