// Sampling by top-k, top-p or min-p, which draws from some ids only.

import type { SamplingParams } from "./engine.ts";

/** Parameters that select the ids to sample from; those in `extra` under the names of servers take precedence. */
export function truncationOf(sampling: SamplingParams): Pick<SamplingParams, "temperature" | "topP" | "topK" | "minP"> {
  const { extra } = sampling;
  const read = (name: string, known: number): number => {
    const value = extra[name];
    return typeof value === "number" ? value : known;
  };
  return {
    temperature: read("temperature", sampling.temperature),
    topP: read("top_p", sampling.topP),
    topK: read("top_k", sampling.topK),
    minP: read("min_p", sampling.minP),
  };
}

/** True if top-k, top-p or min-p keep only some ids at each token. Greedy sampling does not count. */
export function isTruncated(sampling: SamplingParams): boolean {
  const { temperature, topP, topK, minP } = truncationOf(sampling);
  return temperature > 0 && (topP < 1 || topK > 0 || minP > 0);
}
