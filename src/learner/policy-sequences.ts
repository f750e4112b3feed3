// Samples and advantages to what the trainer takes. The loss mask decides; the checks of alignment run on every sample, so
// that a mask that does not belong to its tokens stops the training instead of spoiling it.

import type { Sample } from "../core/index.ts";
import { alignmentViolations } from "../trajectories/index.ts";
import type { LossSequence } from "./loss-sequence.ts";

/** A training row, and how much better than its fellows its episode was. */
export type WeightedSample = { readonly sample: Sample; readonly advantage: number };

/**
 * What experiments do wrong on purpose, to show what the checks are for. "shifted-mask": the loss mask is moved by one
 * token. "observations-too": what the policy read is trained as well. Both switch the checks off.
 */
export type Sabotage = "none" | "shifted-mask" | "observations-too";

/**
 * One sequence for each sample; every token in the loss has the same weight, whatever the length of its episode. Throws an
 * `Error` for a sample that is not aligned, was not recorded token by token, or has no logprobs.
 */
export function policySequences(rows: readonly WeightedSample[], sabotage: Sabotage = "none"): LossSequence[] {
  const places = rows.map(({ sample }) => {
    if (sabotage === "none") checkSample(sample);
    return placesOf(sample, sabotage);
  });
  const total = places.reduce((sum, targets) => sum + targets.length, 0);
  return rows.map(({ sample, advantage }, index) => {
    const targets = places[index]!;
    const { tokens, logprobs } = sample;
    return {
      tokens,
      targets,
      weights: new Float32Array(targets.length).fill(1 / total),
      advantages: new Float32Array(targets.length).fill(advantage),
      // A wrong mask is trained at tokens that nobody sampled, so there is nothing to compare with.
      sampledLogprobs:
        logprobs === null || sabotage !== "none" ? null : Float32Array.from(targets, (place) => logprobs[place]!),
      referenceLogprobs: null,
    };
  });
}

function checkSample(sample: Sample): void {
  const problem =
    alignmentViolations(sample)[0] ??
    (sample.tokenAccounting === "text-delta" ? `Sample "${sample.id}": its tokens are re-encoded text.` : null) ??
    (sample.logprobs === null ? `Sample "${sample.id}": it has no logprobs.` : null);
  if (problem !== null) {
    throw new Error(`Cannot train: ${problem} Tokens that are trained must be the tokens that were sampled.`);
  }
}

function placesOf({ tokens, lossMask, sampledMask }: Sample, sabotage: Sabotage): Uint32Array {
  const places = [...tokens.keys()];
  switch (sabotage) {
    case "none":
      return Uint32Array.from(places.filter((place) => lossMask[place] === 1));
    case "shifted-mask":
      return Uint32Array.from(places.filter((place) => place > 0 && lossMask[place - 1] === 1));
    case "observations-too": {
      // From the first action on: the guidelines before it are the same in every episode.
      const first = sampledMask.indexOf(1);
      return Uint32Array.from(places.filter((place) => place >= first && first >= 1));
    }
    default:
      return sabotage satisfies never;
  }
}
