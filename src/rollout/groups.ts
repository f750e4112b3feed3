// Groups: the episodes of one task whose rewards are compared. The source of their tasks (`tasks.ts`
// has the one of a curriculum), planned and finished groups, filters that select those worth training on, and the record of the decision. The scheduler decides when
// episodes run (`group-scheduler.ts`).

import { setImmediate } from "node:timers/promises";

import type { Episode, GroupRecord, Task } from "../core/index.ts";
import { requireWhole } from "../lib/limits.ts";
import { deriveSeed } from "../lib/random.ts";
import type { EndedEpisode, EpisodeRequest } from "./episode-runner.ts";

/** The outcome of a group. */
export type GroupResult = {
  readonly groupIndex: number;
  readonly taskIndex: number;
  /** Rewards of its graded episodes. */
  readonly rewards: readonly number[];
  /**
   * True: the group was ended before its episodes could be graded, so nothing is known about its
   * task.
   */
  readonly isCancelled: boolean;
};

export interface TaskSource {
  /**
   * The index of the task of group `groupIndex`; called once for each group, in order, unless it
   * returned "later": it cannot say before further groups are decided. `null`: there are none left.
   */
  next(groupIndex: number): number | "later" | null;
  report(result: GroupResult): void;
}

/** The tasks in order, `passes` times. */
export function tasksInOrder(taskIndexes: readonly number[], options: { readonly passes: number }): TaskSource {
  const groups = taskIndexes.length * options.passes;
  return {
    next: (groupIndex) => (groupIndex < groups ? taskIndexes[groupIndex % taskIndexes.length]! : null),
    report: () => undefined,
  };
}

export type PlannedGroup = {
  /** The task's id; `<task id>@2` and so on when the task is run again. */
  readonly groupId: string;
  readonly task: Task;
  /** Number of the group in the run, in the order in which groups are opened. */
  readonly groupIndex: number;
};

export function groupIdOf(task: Pick<Task, "id">, visit: number): string {
  return visit === 1 ? task.id : `${task.id}@${visit}`;
}

/**
 * The seed of the `sampleIndex`-th episode of a group in a run: the same in every process,
 * independent of what ran before.
 */
export function episodeSeed(runSeed: number, groupId: string, sampleIndex: number): number {
  return deriveSeed(runSeed, groupId, sampleIndex);
}

/** Id and seed of an episode: derived only from the plan, so they are the same in every run of it. */
export function episodeKey(
  { groupId }: PlannedGroup,
  sampleIndex: number,
  runSeed: number,
): Pick<EpisodeRequest, "episodeId" | "groupId" | "sampleIndex" | "seed"> {
  return {
    episodeId: `${groupId}#${sampleIndex}`,
    groupId,
    sampleIndex,
    seed: episodeSeed(runSeed, groupId, sampleIndex),
  };
}

/** The episode's place in its group, read from the end of its id. */
export function placeOf(episodeId: string): number {
  return Number(episodeId.slice(episodeId.lastIndexOf("#") + 1));
}

/** An episode of a group that has finished. */
export type GroupMember = { readonly sampleIndex: number; readonly ended: EndedEpisode };

/** A group whose last episode has finished. */
export type FinishedGroup = {
  readonly plan: PlannedGroup;
  /** Members by place in the group. */
  readonly members: readonly GroupMember[];
  /**
   * "complete": all episodes ran. "cut-off": it took too long. "surplus": enough other groups were
   * kept. "stale": its oldest token is too old to be trained.
   */
  readonly ending: "complete" | "cut-off" | "surplus" | "stale";
};

/** A finished group as filters see it. */
export type GroupView = {
  readonly task: Task;
  readonly groupIndex: number;
  /** Rewards of the graded episodes, by place in the group. */
  readonly rewards: readonly number[];
  /** All episodes, by place in the group. */
  readonly episodes: readonly Episode[];
};

/** Rewards of the graded episodes, by place in the group. */
export function rewardsOf({ members }: FinishedGroup): number[] {
  return members.map(({ ended }) => ended.summary.reward).filter((reward) => reward !== null);
}

/**
 * Returns the reason for dropping the group, `null` to keep it. Must depend only on the group: the
 * order of calls is not defined.
 */
export type GroupFilter = ((group: GroupView) => string | null) & {
  /**
   * False: the filter reads only rewards, so that episodes written by other processes need not be
   * read. Default: true.
   */
  readonly readsEpisodes?: boolean;
};

/** A filter that reads only the rewards of graded episodes. */
function rewardFilter(reasonOf: (rewards: readonly number[]) => string | null): GroupFilter {
  return Object.assign(({ rewards }: GroupView) => reasonOf(rewards), { readsEpisodes: false });
}

/**
 * Drops groups with zero variance, whose graded rewards are all equal: their advantages are zero
 * and teach nothing (dynamic sampling, DAPO 2025). Rewards are equal within `tolerance`, 1e-6 by
 * default.
 */
export function dropZeroSignal(options: { readonly tolerance?: number } = {}): GroupFilter {
  const { tolerance = 1e-6 } = options;
  return rewardFilter((rewards) => (Math.max(...rewards) - Math.min(...rewards) <= tolerance ? "zero-signal" : null));
}

/** Drops groups whose mean reward is outside `[min, max]`: too hard, or too easy. */
export function keepRewardRange({ min, max }: { readonly min: number; readonly max: number }): GroupFilter {
  if (!(min <= max)) throw new RangeError(`Cannot filter groups: the range is ${min} to ${max}, expected min <= max.`);
  return rewardFilter((rewards) => {
    const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
    return mean >= min && mean <= max ? null : "reward-range";
  });
}

/** Policy for keeping groups, for replacing missing episodes, and for waiting for slow ones. */
export type GroupPolicy = {
  /** Filters in order; the first reason counts. */
  readonly filters: readonly GroupFilter[];
  /**
   * Minimum number of graded episodes; a group with fewer is dropped. At least 1. Default of
   * producers, whose groups are trained: 2.
   */
  readonly minGraded: number;
  /** Maximum number of further episodes that replace ungraded ones in a group. At least 0. */
  readonly replacements: number;
  /**
   * Ends a group that is not complete `afterMs` after its last episode began: running episodes are
   * cancelled, and the group is dropped ("drop") or decided by the episodes that have finished
   * ("keep"). `null`: groups wait for slow episodes. Depends on timing, and "keep" prefers short
   * episodes.
   */
  readonly cutoff: { readonly afterMs: number; readonly policy: "keep" | "drop" } | null;
};

/** Every group with a reward is kept as it is. */
export const keepAllGroups: GroupPolicy = Object.freeze({
  filters: Object.freeze([]),
  minGraded: 1,
  replacements: 0,
  cutoff: null,
});

/**
 * Smallest number of graded episodes that can train: rewards count by their difference from the
 * mean, and a single one has none.
 */
export function minGradedToTrain(groupSize: number): number {
  return Math.min(2, groupSize);
}

/** Fills in the defaults and validates. Throws a `RangeError` that names the option and its value. */
export function resolveGroupPolicy(policy: Partial<GroupPolicy>, groupSize: number): GroupPolicy {
  const resolved = { ...keepAllGroups, ...policy };
  const { minGraded, replacements, cutoff } = resolved;
  if (!Number.isInteger(minGraded) || minGraded < 1 || minGraded > groupSize) {
    throw new RangeError(
      `Cannot roll out: minGraded is ${minGraded}, expected a whole number from 1 to the group size ${groupSize}.`,
    );
  }
  requireWhole("roll out", "replacements", replacements, 0);
  if (cutoff !== null && !(cutoff.afterMs > 0)) {
    throw new RangeError(`Cannot roll out: cutoff.afterMs is ${cutoff.afterMs}, expected more than 0.`);
  }
  return resolved;
}

/** The reason for dropping the group; `null` if it may be kept. */
export async function reasonToDrop(group: FinishedGroup, policy: GroupPolicy): Promise<string | null> {
  const { ending } = group;
  if (ending === "surplus" || ending === "stale") return ending;
  const rewards = rewardsOf(group);
  const { length } = rewards;
  if (ending === "cut-off" && (policy.cutoff?.policy === "drop" || length < policy.minGraded)) return "cut-off";
  if (length === 0) {
    // Episodes that fail at once never wait: without a pause, the groups that replace theirs would
    // keep the timers and sockets of the process from running.
    await setImmediate();
    return "not-graded";
  }
  if (length < policy.minGraded) return "too-few-graded";
  const { plan, members } = group;
  const reads = policy.filters.some(({ readsEpisodes = true }) => readsEpisodes);
  const opened = reads ? await Promise.all(members.map(({ ended }) => ended.open())) : [];
  const episodes = opened.map(({ episode }) => episode);
  const view: GroupView = { task: plan.task, groupIndex: plan.groupIndex, rewards, episodes };
  for (const filter of policy.filters) {
    const reason = filter(view);
    if (reason !== null) return reason;
  }
  return null;
}

/** Record of a decision. `reason`: the reason for dropping the group; `null`: it is kept. */
export function groupRecord({ plan, members }: FinishedGroup, reason: string | null): GroupRecord {
  return {
    groupId: plan.groupId,
    // Taken from the episodes, which have a copy: environments may have changed the task itself.
    taskId: members[0]?.ended.summary.taskId ?? plan.task.id,
    groupIndex: plan.groupIndex,
    decision: reason === null ? "kept" : "dropped",
    reason,
    episodeIds: members.map(({ ended }) => ended.summary.id),
    rewards: members.map(({ ended }) => ended.summary.reward),
  };
}

/** Place of an episode of a kept group in its run. */
export type EpisodePosition = {
  /** Number of the episode. */
  readonly index: number;
  readonly groupIndex: number;
  readonly group: GroupRecord;
};
