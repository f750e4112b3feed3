// What a row says of its origin: the one place where our names become snake_case. Formats put it where they have room for
// such things (verl's `extra_fields`, Atropos' `overrides`, a column `metadata`).

import type { Sample } from "../core/index.ts";
import { branchesOf } from "../trajectories/index.ts";
import { type ExportOrigin, withRun } from "./export-origin.ts";

/** `[start, end)` in all tokens of the sample. Versions as the engine names them; `null` when it names none. */
export type WeightSpanFacts = {
  readonly start: number;
  readonly end: number;
  readonly dispatch: string | null;
  readonly reply: string | null;
};

export type EpisodeFacts = {
  readonly run: string | null;
  readonly environment: string;
  readonly split: string;
  readonly task_id: string;
  /** Unique over all runs of the export. */
  readonly group_id: string;
  readonly group_index: number;
  readonly episode_id: string;
  /** Number of the episode in the export; the same for all rows of an episode. */
  readonly rollout_id: number;
  /** Place in the group. */
  readonly sample_index: number;
  readonly outcome: string;
  readonly stop_reason: string;
  /** How many problems the episode's actions had. */
  readonly problems: number;
};

export type SampleFacts = EpisodeFacts & {
  readonly branch: number;
  /** 1/K for an episode with K samples. */
  readonly weight: number;
  /** Engine calls on this branch. */
  readonly turns: number;
  readonly history_policy: Sample["historyPolicy"];
  readonly token_accounting: Sample["tokenAccounting"];
  /** Where observations are not what the template writes, beyond what `history_policy` says. */
  readonly deviations: Sample["deviations"];
  readonly weight_spans: readonly WeightSpanFacts[];
};

export function episodeFacts(origin: Pick<ExportOrigin, "episode" | "index" | "groupIndex" | "run">): EpisodeFacts {
  const { episode, run } = origin;
  return {
    run,
    environment: episode.task.environment,
    split: episode.task.split,
    task_id: episode.task.id,
    group_id: withRun(run, episode.groupId),
    group_index: origin.groupIndex,
    episode_id: episode.id,
    rollout_id: origin.index,
    sample_index: episode.sampleIndex,
    outcome: episode.outcome,
    stop_reason: episode.stopReason,
    problems: episode.problems.length,
  };
}

export function sampleFacts(sample: Sample, origin: ExportOrigin): SampleFacts {
  return {
    ...episodeFacts(origin),
    branch: sample.branch,
    weight: 1 / origin.sampleCount,
    turns: branchTurns(sample, origin),
    history_policy: sample.historyPolicy,
    token_accounting: sample.tokenAccounting,
    deviations: sample.deviations,
    weight_spans: sample.weightRanges.map(({ start, end, dispatch, reply }) => ({ start, end, dispatch, reply })),
  };
}

/** Engine calls on the sample's branch. */
export function branchTurns(sample: Sample, { episode }: Pick<ExportOrigin, "episode">): number {
  return branchesOf(episode.trajectory)[sample.branch]?.length ?? 0;
}
