// A group as Atropos' server takes it on `/scored_data` (`ScoredDataGroup`; atroposlib/api/README.md, 0.4.0): lists over the
// samples of the group, masks that repeat the token or say -100, and logprobs that say 1.0 where the mask says -100. A token
// that is sampled and not trained (a later branch repeats it) therefore loses its logprob here.

import type { Sample } from "../core/index.ts";
import { checkExportable, type ExportOrigin } from "./export-origin.ts";
import { labelsOf } from "./labels.ts";
import type { Columns } from "./row-columns.ts";
import { sampleFacts, type SampleFacts } from "./row-facts.ts";

/** A logprob that cannot be one marks tokens without. */
const noLogprob = 1;

export type AtroposRow = {
  readonly tokens: readonly (readonly number[])[];
  /** -100 or the token itself. */
  readonly masks: readonly (readonly number[])[];
  readonly scores: readonly number[];
  /** Left to the trainer, which compares the scores of the group. */
  readonly advantages: null;
  readonly ref_logprobs: null;
  /** `null` when the engine reported none for some sample. */
  readonly inference_logprobs: readonly (readonly number[])[] | null;
  readonly messages: null;
  readonly generation_params: null;
  /** One for each sample: its facts, and nothing that a trainer acts upon. */
  readonly overrides: readonly SampleFacts[];
  readonly group_overrides: { readonly group_id: string; readonly task_id: string };
  readonly images: null;
};

export const atroposColumns: Columns<AtroposRow> = [
  { name: "tokens", type: "int-lists" },
  { name: "masks", type: "int-lists" },
  { name: "scores", type: "doubles" },
  { name: "advantages", type: "float-lists" },
  { name: "ref_logprobs", type: "float-lists" },
  { name: "inference_logprobs", type: "float-lists" },
  { name: "messages", type: "json" },
  { name: "generation_params", type: "json" },
  { name: "overrides", type: "json" },
  { name: "group_overrides", type: "json" },
  { name: "images", type: "json" },
];

/**
 * The samples of one group, in order. Throws a plain error when there is none, when one has no reward, and for a sample that
 * must not be exported (see `checkExportable`).
 */
export function toAtroposRow(
  samples: readonly { readonly sample: Sample; readonly origin: ExportOrigin }[],
): AtroposRow {
  const [first] = samples;
  if (first === undefined) throw new Error("Cannot export a group to Atropos: it has no samples.");
  for (const { sample } of samples) checkExportable(sample, { allowTextDelta: false });
  const overrides = samples.map(({ sample, origin }) => sampleFacts(sample, origin));
  const logprobs = samples.map(({ sample }) => trainedLogprobs(sample));
  return {
    tokens: samples.map(({ sample }) => [...sample.tokens]),
    masks: samples.map(({ sample }) => labelsOf(sample)),
    scores: samples.map(({ sample }) => scoreOf(sample)),
    advantages: null,
    ref_logprobs: null,
    inference_logprobs: logprobs.every((list) => list !== null) ? logprobs : null,
    messages: null,
    generation_params: null,
    overrides,
    group_overrides: { group_id: overrides[0]?.group_id ?? first.sample.groupId, task_id: first.sample.taskId },
    images: null,
  };
}

function scoreOf(sample: Sample): number {
  if (sample.reward === null)
    throw new Error(`Cannot export sample "${sample.id}" to Atropos: it has no reward; leave out what was not graded.`);
  return sample.reward;
}

function trainedLogprobs({ logprobs, lossMask }: Sample): number[] | null {
  if (logprobs === null) return null;
  return Array.from(logprobs, (logprob, at) => (lossMask[at] === 1 ? logprob : noLogprob));
}
