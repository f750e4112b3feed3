// Samples for supervised training on the very tokens that were sampled: `input_ids` and `labels`, -100 where a token stays out
// of the loss. Trainers of the transformers family (TRL's SFT trainer among them) take such rows as they are.

import type { Sample } from "../core/index.ts";
import { checkExportable, type ExportOrigin } from "./export-origin.ts";
import { labelsOf } from "./labels.ts";
import type { Columns } from "./row-columns.ts";
import { sampleFacts, type SampleFacts } from "./row-facts.ts";

export type SftTokensRow = {
  readonly input_ids: readonly number[];
  /** Aligned with `input_ids`, not shifted: the token itself where it is trained. */
  readonly labels: readonly number[];
  readonly reward: number | null;
  readonly metadata: SampleFacts;
};

export const sftTokensColumns: Columns<SftTokensRow> = [
  { name: "input_ids", type: "ints" },
  { name: "labels", type: "ints" },
  { name: "reward", type: "double" },
  { name: "metadata", type: "json" },
];

/** Throws a plain error for a sample that must not be exported (see `checkExportable`). */
export function toSftTokensRow(sample: Sample, origin: ExportOrigin): SftTokensRow {
  checkExportable(sample, { allowTextDelta: false });
  return {
    input_ids: [...sample.tokens],
    labels: labelsOf(sample),
    reward: sample.reward,
    metadata: sampleFacts(sample, origin),
  };
}
