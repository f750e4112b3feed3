// What a thread gives back, as the result that engines promise. This engine knows which weights sampled each token, so
// both versions of a span are that one.

import type { SampleResult } from "../../core/engine.ts";
import type { Finish } from "../../core/turn.ts";
import type { Finished } from "./sequence.ts";

export function readResult(finished: Finished, promptTokens: number): SampleResult {
  const { ids, logprobs, versions, cachedTokens } = finished;
  return {
    sampledTokens: ids,
    logprobs,
    finish: finishOf(finished),
    weightSpans: versions.map(({ version, count }) => ({ tokenCount: count, dispatch: version, reply: version })),
    usage: { promptTokens, completionTokens: ids.length, cachedTokens },
  };
}

function finishOf({ reason, ids }: Finished): Finish {
  switch (reason) {
    case "matched":
      return { reason: "stop", matched: ids.at(-1) ?? null, raw: null };
    case "length":
      return { reason: "length", matched: null, raw: null };
    case "abort":
      return { reason: "abort", matched: null, raw: null };
    default:
      return reason satisfies never;
  }
}
