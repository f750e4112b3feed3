// Samples as verl's agent loop returns them: `AgentLoopOutput` (verl/experimental/agent_loop/agent_loop.py, verl 0.9.1), one
// for each branch, whose list a loop may return since then. `response_mask` is the loss mask: a token that an earlier branch
// trains has 0 here.

import type { Episode, Sample } from "../core/index.ts";
import { type ExportOrigin, withRun } from "./export-origin.ts";
import { branchTurns, sampleFacts, type SampleFacts } from "./row-facts.ts";
import type { Columns } from "./row-columns.ts";
import { splitResponse } from "./split-response.ts";

export type VerlRow = {
  readonly prompt_ids: readonly number[];
  readonly response_ids: readonly number[];
  /** Aligned with `response_ids`. */
  readonly response_mask: readonly number[];
  /** Aligned with `response_ids`, 0.0 where not sampled; `null` when the engine reported none. */
  readonly response_logprobs: readonly number[] | null;
  readonly reward_score: number | null;
  /** Messages beside the system's: two for each engine call of the branch. */
  readonly num_turns: number;
  readonly metrics: VerlMetrics;
  readonly extra_fields: VerlExtraFields;
};

/** Seconds, of the whole episode. */
export type VerlMetrics = {
  readonly generate_sequences: number;
  readonly tool_calls: number;
  readonly compute_score: number;
};

export type VerlExtraFields = SampleFacts & {
  /** What verl compares rewards within. */
  readonly uid: string;
  /** Oldest and newest weights of the sample; `null` unless every version is a whole number. */
  readonly min_global_steps: number | null;
  readonly max_global_steps: number | null;
};

export const verlColumns: Columns<VerlRow> = [
  { name: "prompt_ids", type: "ints" },
  { name: "response_ids", type: "ints" },
  { name: "response_mask", type: "ints" },
  { name: "response_logprobs", type: "floats" },
  { name: "reward_score", type: "double" },
  { name: "num_turns", type: "int" },
  { name: "metrics", type: "json" },
  { name: "extra_fields", type: "json" },
];

/** Throws a plain error for a sample that must not be exported (see `checkExportable`). */
export function toVerlRow(sample: Sample, origin: ExportOrigin): VerlRow {
  const { prompt, response, lossMask, logprobs } = splitResponse(sample);
  return {
    prompt_ids: [...prompt],
    response_ids: [...response],
    response_mask: [...lossMask],
    response_logprobs: logprobs,
    reward_score: sample.reward,
    num_turns: 2 * branchTurns(sample, origin),
    metrics: metricsOf(origin.episode),
    extra_fields: {
      ...sampleFacts(sample, origin),
      uid: withRun(origin.run, sample.groupId),
      ...stepsOf(sample),
    },
  };
}

function metricsOf({ events }: Episode): VerlMetrics {
  const seconds = { turn: 0, "tool-result": 0, grade: 0 };
  for (const event of events) {
    if (event.type === "turn" || event.type === "tool-result" || event.type === "grade")
      seconds[event.type] += event.durationMs / 1000;
  }
  return {
    generate_sequences: seconds.turn,
    tool_calls: seconds["tool-result"],
    compute_score: seconds.grade,
  };
}

function stepsOf(sample: Sample): Pick<VerlExtraFields, "min_global_steps" | "max_global_steps"> {
  const versions = sample.weightRanges.flatMap(({ dispatch, reply }) => [dispatch ?? reply, reply ?? dispatch]);
  const steps = versions.map((version) => (version !== null && /^\d{1,15}$/.test(version) ? Number(version) : null));
  const known = steps.filter((step) => step !== null);
  if (known.length === 0 || known.length < steps.length) return { min_global_steps: null, max_global_steps: null };
  return {
    min_global_steps: known.reduce((least, step) => Math.min(least, step)),
    max_global_steps: known.reduce((most, step) => Math.max(most, step)),
  };
}
