// Ended groups as filters see them and as stores keep them.

import type { EpisodeSamples, GroupRecord } from "../../core/index.ts";
import type { GroupView } from "./group-filter.ts";
import type { EndedGroup } from "./planned-group.ts";

/** Where an episode stands in its run. */
export type EpisodePosition = {
  /** Number of the episode. */
  readonly index: number;
  readonly groupIndex: number;
  readonly group: GroupRecord;
};

export function viewOf({ plan, members }: EndedGroup): GroupView {
  const episodes = members.map(({ played }) => played.episode);
  const rewards = episodes.map(({ reward }) => reward).filter((reward) => reward !== null);
  return { task: plan.task, groupIndex: plan.groupIndex, rewards, episodes };
}

/** `reason`: why it is dropped; `null`: it is kept. */
export function groupRecord({ plan, members }: EndedGroup, reason: string | null): GroupRecord {
  return {
    groupId: plan.groupId,
    taskId: plan.task.id,
    groupIndex: plan.groupIndex,
    decision: reason === null ? "kept" : "dropped",
    reason,
    episodeIds: members.map(({ played }) => played.episode.id),
    rewards: members.map(({ played }) => played.episode.reward),
  };
}

export function resultsOf({ members }: EndedGroup): EpisodeSamples[] {
  return members.map(({ played }) => played.result);
}

/** The place in its group that an episode's id ends with. */
export function placeOf(episodeId: string): number {
  return Number(episodeId.slice(episodeId.lastIndexOf("#") + 1));
}
