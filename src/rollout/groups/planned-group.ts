// A group before it is played, and where such groups come from.

import type { Task } from "../../core/index.ts";
import type { EpisodeRequest, FinishedEpisode } from "../episode-player.ts";
import { episodeSeed } from "../episode/run-group.ts";

export type PlannedGroup = {
  /** The task's id; `<task id>@2` and so on when the task is played again. */
  readonly groupId: string;
  readonly task: Task;
  /** Number of the group in the run, in the order in which groups are opened. */
  readonly groupIndex: number;
};

/** An ended episode of a group. */
export type GroupMember = { readonly sampleIndex: number; readonly played: FinishedEpisode };

/** A group whose last episode has ended. */
export type EndedGroup = {
  readonly plan: PlannedGroup;
  /** By place in the group. */
  readonly members: readonly GroupMember[];
  /** "whole": all were played. "cut-off": it took too long. "surplus": enough groups were kept without it. "stale": its oldest token is too old to be trained. */
  readonly ending: "whole" | "cut-off" | "surplus" | "stale";
};

export function groupIdOf(task: Task, visit: number): string {
  return visit === 1 ? task.id : `${task.id}@${visit}`;
}

/** What names and seeds an episode: derived from the plan alone, so it is the same in every run of it. */
export function episodeKey(
  plan: PlannedGroup,
  sampleIndex: number,
  runSeed: number,
): Pick<EpisodeRequest, "episodeId" | "groupId" | "sampleIndex" | "seed"> {
  const { groupId } = plan;
  return {
    episodeId: `${groupId}#${sampleIndex}`,
    groupId,
    sampleIndex,
    seed: episodeSeed(runSeed, groupId, sampleIndex),
  };
}
