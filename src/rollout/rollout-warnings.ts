import type { SamplingParams } from "../core/index.ts";

/** What is allowed but spoils learning, one sentence each; empty when nothing does. Meant to be said once a run. */
export function rolloutWarnings(
  sampling: Pick<SamplingParams, "temperature" | "topP" | "topK" | "minP">,
  groupSize: number,
): string[] {
  const warnings: string[] = [];
  const { temperature, topP, topK, minP } = sampling;
  if (temperature === 0 && groupSize > 1) {
    warnings.push(
      `Temperature 0 with ${groupSize} samples a task: the episodes of a group will be alike, and a group without ` +
        "differences teaches nothing; use temperature 1, or one sample a task.",
    );
  }
  const cuts = [
    topP < 1 ? `top-p ${topP}` : null,
    topK > 0 ? `top-k ${topK}` : null,
    minP > 0 ? `min-p ${minP}` : null,
  ].filter((cut) => cut !== null);
  if (cuts.length > 0 && temperature !== 0) {
    warnings.push(
      `Truncated sampling (${cuts.join(", ")}): recorded logprobs are those of the whole distribution, not of the one that ` +
        "was sampled from, so importance ratios are wrong; use top-p 1, top-k -1 and min-p 0 for training.",
    );
  }
  return warnings;
}
