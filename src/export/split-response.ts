// Prompt and response as most trainers have it: the response begins at the first sampled token and holds everything after
// it, observations included. Nothing is computed that a trainer would have to trust: masks and logprobs are the sample's
// own, cut.

import type { Sample } from "../core/index.ts";
import { checkExportable } from "./export-origin.ts";

export type SplitSample = {
  /** What precedes the first action. */
  readonly prompt: Uint32Array;
  readonly response: Uint32Array;
  /** 1 where the token enters the loss. Aligned with `response`. */
  readonly lossMask: Uint8Array;
  /** 0 where not sampled. Aligned with `response`; `null` when the engine reported none. */
  readonly logprobs: readonly number[] | null;
};

/** Throws as `checkExportable` does. */
export function splitResponse(sample: Sample, options: { readonly allowTextDelta?: boolean } = {}): SplitSample {
  checkExportable(sample, { allowTextDelta: options.allowTextDelta ?? false });
  const start = sample.sampledMask.indexOf(1);
  return {
    prompt: sample.tokens.subarray(0, start),
    response: sample.tokens.subarray(start),
    lossMask: sample.lossMask.subarray(start),
    logprobs: zeroWhereUnsampled(sample.logprobs?.subarray(start) ?? null),
  };
}

/** A logprob that is not there becomes 0, as trainers have it. */
export function zeroWhereUnsampled(logprobs: Float32Array | null): number[] | null {
  return logprobs === null ? null : Array.from(logprobs, (logprob) => (Number.isNaN(logprob) ? 0 : logprob));
}
