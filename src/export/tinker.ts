// Samples as the parts of a tinker `Datum` (tinker 0.38): inputs without the last token, targets without the first, and
// logprobs, advantages and mask beside the targets. As its cookbook does it (rl/data_processing.py), the advantage is the
// reward minus the mean of the group, on trained tokens alone; that mean counts every episode once, however many samples it
// has. Nothing is divided by K: the service adds up over tokens, and each token is in one sample.

import type { Sample } from "../core/index.ts";
import { checkExportable, type ExportOrigin } from "./export-origin.ts";
import type { Columns } from "./row-columns.ts";
import { sampleFacts, type SampleFacts } from "./row-facts.ts";
import { zeroWhereUnsampled } from "./split-response.ts";

export type TinkerRow = {
  /** All tokens but the last. */
  readonly model_input: readonly number[];
  /** All tokens but the first; what follows is aligned with it. */
  readonly target_tokens: readonly number[];
  /** 0.0 where not sampled; `null` when the engine reported none. */
  readonly logprobs: readonly number[] | null;
  readonly advantages: readonly number[];
  /** 1.0 where the token enters the loss. */
  readonly mask: readonly number[];
  readonly reward: number;
  readonly metadata: SampleFacts;
};

export const tinkerColumns: Columns<TinkerRow> = [
  { name: "model_input", type: "ints" },
  { name: "target_tokens", type: "ints" },
  { name: "logprobs", type: "floats" },
  { name: "advantages", type: "floats" },
  { name: "mask", type: "floats" },
  { name: "reward", type: "double" },
  { name: "metadata", type: "json" },
];

/**
 * Throws a plain error for a sample that must not be exported (see `checkExportable`), for one without a reward, and for one
 * whose first token is trained: it could not be a target, and would be lost.
 */
export function toTinkerRow(sample: Sample, origin: ExportOrigin): TinkerRow {
  checkExportable(sample, { allowTextDelta: false });
  const { reward, tokens, lossMask } = sample;
  if (reward === null || origin.groupMean === null)
    throw new Error(`Cannot export sample "${sample.id}" to tinker: it has no reward, and so no advantage.`);
  if (lossMask[0] === 1) {
    throw new Error(
      `Cannot export sample "${sample.id}" to tinker: its first token is trained, and nothing precedes it from which it could be predicted.`,
    );
  }
  const mask = Array.from(lossMask.subarray(1));
  // Once, in the precision that is written.
  const advantage = Math.fround(reward - origin.groupMean);
  return {
    model_input: [...tokens.subarray(0, -1)],
    target_tokens: [...tokens.subarray(1)],
    logprobs: zeroWhereUnsampled(sample.logprobs?.subarray(1) ?? null),
    advantages: mask.map((isTrained) => (isTrained === 1 ? advantage : 0)),
    mask,
    reward,
    metadata: sampleFacts(sample, origin),
  };
}
