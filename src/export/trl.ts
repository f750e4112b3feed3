// Samples as a rollout function of TRL's GRPO trainer returns them, one row each: `prompt_ids`, `completion_ids`, `logprobs`,
// and `env_mask`, which takes what the policy did not sample out of the loss (trl/trainer/grpo_trainer.py, TRL 1.16). The
// trainer wants lists over rows; every other column goes to the reward functions, which is where the reward comes from.

import type { Sample } from "../core/index.ts";
import { type ExportOrigin, withRun } from "./export-origin.ts";
import { sampleFacts, type SampleFacts } from "./row-facts.ts";
import type { Columns } from "./row-columns.ts";
import { splitResponse } from "./split-response.ts";

export type TrlRow = {
  readonly prompt_ids: readonly number[];
  readonly completion_ids: readonly number[];
  /** Aligned with `completion_ids`, 0.0 where not sampled; `null` when the engine reported none. */
  readonly logprobs: readonly number[] | null;
  /** Aligned with `completion_ids`: 1 where the token enters the loss. */
  readonly env_mask: readonly number[];
  readonly reward: number | null;
  readonly group_id: string;
  readonly metadata: SampleFacts;
};

export const trlColumns: Columns<TrlRow> = [
  { name: "prompt_ids", type: "ints" },
  { name: "completion_ids", type: "ints" },
  { name: "logprobs", type: "floats" },
  { name: "env_mask", type: "ints" },
  { name: "reward", type: "double" },
  { name: "group_id", type: "text" },
  { name: "metadata", type: "json" },
];

/** Throws a plain error for a sample that must not be exported (see `checkExportable`). */
export function toTrlRow(sample: Sample, origin: ExportOrigin): TrlRow {
  const { prompt, response, lossMask, logprobs } = splitResponse(sample);
  return {
    prompt_ids: [...prompt],
    completion_ids: [...response],
    logprobs,
    env_mask: [...lossMask],
    reward: sample.reward,
    group_id: withRun(origin.run, sample.groupId),
    metadata: sampleFacts(sample, origin),
  };
}
