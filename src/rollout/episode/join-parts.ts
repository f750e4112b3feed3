// One turn out of the parts that it was sampled in: a server that loads new weights aborts a call, and the next call goes on
// from its tokens. Every token keeps the logprob and the weight versions of the call that sampled it.

import type { SampleResult } from "../../core/engine.ts";
import type { Finish } from "../../core/turn.ts";

/** At least one part. Ends as the last part does, or with `finish`. The prompt is that of the first. */
export function joinParts(parts: readonly SampleResult[], finish: Finish | null = null): SampleResult {
  const first = parts[0]!;
  const last = parts.at(-1)!;
  if (parts.length === 1) return finish === null ? first : { ...first, finish };
  const total = sampledIn(parts);
  const sampledTokens = new Uint32Array(total);
  const hasLogprobs = parts.every((part) => part.logprobs !== null || part.sampledTokens.length === 0);
  const logprobs = hasLogprobs ? new Float32Array(total) : null;
  let at = 0;
  for (const part of parts) {
    sampledTokens.set(part.sampledTokens, at);
    if (part.logprobs !== null) logprobs?.set(part.logprobs, at);
    at += part.sampledTokens.length;
  }
  return {
    sampledTokens,
    logprobs,
    finish: finish ?? last.finish,
    weightSpans: parts.flatMap(({ weightSpans }) => weightSpans.filter(({ tokenCount }) => tokenCount > 0)),
    usage: { ...first.usage, completionTokens: total },
  };
}

/** How many tokens the parts have together. */
export function sampledIn(parts: readonly SampleResult[]): number {
  return parts.reduce((sum, part) => sum + part.sampledTokens.length, 0);
}
