// A run that ends: groups of a plan are run, decided and recorded, until each task had its group or
// the quota is met. Not the loop of an episode (`episode/`), and not endless (`producer/`). The
// scheduler decides when episodes run, and the quota how many groups are needed; here finished
// groups become decisions and records.
//
//   planned ─► in flight ─► finished ─┬─ passes ─► kept, with its rows (or surplus, when enough are kept)
//      │           │                  └─ filtered, too few graded, cut off ─► dropped, with the reason
//      │           └─ the run is cancelled: its episodes are aborted, and it stays undecided, so that a later process resumes it
//      └─ drain, cancel or a fault: never started

import type { GroupRecord, Taskset } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { requireWhole } from "../lib/limits.ts";
import type { AdaptiveConcurrency } from "./concurrency/episode-limit.ts";
import type { DispatchEpisode, EndedEpisode } from "./episode-runner.ts";
import type { RankGroup } from "./rank-group.ts";
import { GroupQuota, type QuotaOptions } from "./group-quota.ts";
import { type ExportSamples, GroupScheduler, type GroupStore } from "./group-scheduler.ts";
import {
  type FinishedGroup,
  groupIdOf,
  type GroupPolicy,
  placeOf,
  reasonToDrop,
  resolveGroupPolicy,
  rewardsOf,
  tasksInOrder,
  type TaskSource,
} from "./groups.ts";
import { type RunTotals, TotalsCounter } from "./run-totals.ts";

/** The tasks of a run. */
export type RolloutPlan = {
  readonly taskset: Taskset;
  /** Indexes of the tasks, in the order they are started; each at most once. */
  readonly taskIndexes: readonly number[];
  readonly groupSize: number;
  /** Seed of the run: every other seed derives from it, the group and the place in it. */
  readonly seed: number;
};

export type RolloutParts = {
  readonly runEpisode: DispatchEpisode;
  /**
   * Turns and tokens that other processes have sampled in episodes that have not ended, for
   * display. Default: none.
   */
  readonly unfinished?: (() => Pick<RunTotals, "turns" | "sampledTokens">) | undefined;
  /** Begun and closed by the caller. */
  readonly store: GroupStore;
  /**
   * Groups that the store holds from an earlier process, by id: their episodes are counted, but
   * nothing is decided again. Default: none.
   */
  readonly decided?: ReadonlyMap<string, GroupRecord>;
  /** Default: no rows. */
  readonly exportSamples?: ExportSamples | undefined;
  /** Compares the episodes of each group before they are stored. Default: each has the reward of its own grade. */
  readonly rank?: RankGroup | null;
};

export type RolloutOptions = {
  /**
   * Limit of episodes in flight, or bounds between which the limit follows the servers. Default:
   * 64.
   */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** Policy for keeping groups. Default: every group with a reward is kept. */
  readonly groups?: Partial<GroupPolicy>;
  /**
   * Number of groups to keep. Default: `target` is `null`, so each task has one group and those
   * that pass are kept. With a number, groups are run until that many are kept, repeating the tasks
   * if they run out, with at most `maxGroups` (default: eight times as many); `oversample` 1 and
   * `order` "plan".
   */
  readonly quota?: Partial<QuotaOptions>;
  /** Source of the next group's task. Default: the plan's tasks in order. */
  readonly tasks?: TaskSource;
  /** Stops starting episodes; running ones finish. */
  readonly drain?: AbortSignal;
  /** Stops starting episodes, and cancels the running ones: outcome "aborted". */
  readonly signal?: AbortSignal;
  /** Called when an episode starts, at every turn, when an episode is stored and at every decision. Must be quick; `totals` may be called any number of times. */
  readonly onProgress?: (totals: () => RunTotals) => void;
  /** Called with each episode when it is stored. */
  readonly onEpisode?: (ended: EndedEpisode) => void;
  /** Called with each group when it is decided. */
  readonly onGroup?: (group: GroupRecord) => void;
  readonly clock?: Clock;
};

/**
 * Runs a plan. Resolves with the totals when everything is decided or a signal stopped the run; all
 * finished episodes are in the store by then, and cancelled ones are counted as aborted. Rejects
 * with the first fault of the store, of an export, of a filter or of the configuration, after
 * running episodes are cancelled. Throws a `RangeError` for a plan or options out of bounds, before
 * anything starts.
 */
export async function runRollout(
  plan: RolloutPlan,
  parts: RolloutParts,
  options: RolloutOptions = {},
): Promise<RunTotals> {
  checkPlan(plan);
  const { taskset, taskIndexes, groupSize, seed } = plan;
  const { decided, unfinished, ...recorded } = parts;
  const { clock = systemClock, concurrency = 64, quota: { target = null, ...quotaOptions } = {} } = options;
  const policy = resolveGroupPolicy(options.groups ?? {}, groupSize);
  const maxGroups = target === null ? Infinity : 8 * target;
  const quota = new GroupQuota({ oversample: 1, order: "plan", maxGroups, ...quotaOptions, target });
  const tasks = options.tasks ?? tasksInOrder(taskIndexes, { passes: target === null ? 1 : Infinity });
  const planned = { groups: target ?? taskIndexes.length, groupSize, target };
  const counter = new TotalsCounter(planned, () => clock.now());
  /** Number of times that each task was run. */
  const visits = new Map<number, number>();
  /** Groups that passed and are not decided yet. */
  const passed = new Map<number, FinishedGroup>();

  // Only a run that replaces its groups could continue forever.
  const openings =
    target === null ? null : new (await import("./failed-openings.ts")).FailedOpenings(`keep ${target} groups`);

  const totals = (): RunTotals => {
    const counted = counter.totals({ concurrency: scheduler.concurrency });
    const { turns, sampledTokens } = unfinished?.() ?? { turns: 0, sampledTokens: 0 };
    return { ...counted, turns: counted.turns + turns, sampledTokens: counted.sampledTokens + sampledTokens };
  };
  const report = (): void => options.onProgress?.(totals);
  const count = (record: GroupRecord, { members }: FinishedGroup): void => {
    counter.decide(
      record,
      members.map(({ ended }) => ended.summary),
    );
    options.onGroup?.(record);
    report();
  };
  /** Records a decision. `reason`: the reason for dropping the group; `null`: it is kept. */
  const decide = async (group: FinishedGroup, reason: string | null): Promise<void> =>
    count(await scheduler.record(group, reason), group);
  const decidePassed = async (groupIndexes: readonly number[], reason: string | null): Promise<void> => {
    for (const groupIndex of groupIndexes) {
      const group = passed.get(groupIndex)!;
      passed.delete(groupIndex);
      await decide(group, reason);
    }
  };

  const scheduler: GroupScheduler = new GroupScheduler({
    ...recorded,
    seed,
    groupSize,
    policy,
    concurrency,
    clock,
    nextGroup: () => {
      const taskIndex = quota.mayOpen ? tasks.next(quota.opened) : null;
      if (taskIndex === null || taskIndex === "later") return null;
      const visit = (visits.get(taskIndex) ?? 0) + 1;
      visits.set(taskIndex, visit);
      const groupIndex = quota.open();
      const task = taskset.task(taskIndex);
      return { groupId: groupIdOf(task, visit), task, groupIndex };
    },
    placesOf: ({ groupId }) => decided?.get(groupId)?.episodeIds.map(placeOf) ?? null,
    onStart: () => {
      counter.start();
      report();
    },
    onEvent: (event) => {
      counter.event(event);
      if (event.type === "turn" || event.type === "agent-reply") report();
    },
    onRecorded: (event) => counter.recorded(event),
    onEpisode: (ended) => {
      counter.finish(ended);
      openings?.see(ended.summary, scheduler.concurrency);
      options.onEpisode?.(ended);
      report();
    },
    onGroup: async (group) => {
      const { groupIndex, groupId, task } = group.plan;
      const isCancelled = group.ending === "surplus";
      const rewards = isCancelled ? [] : rewardsOf(group);
      tasks.report({ groupIndex, taskIndex: task.index, rewards, isCancelled });
      const before = decided?.get(groupId);
      if (before !== undefined) {
        quota.restore(groupIndex, before.decision);
        count(before, group);
      } else {
        const reason = await reasonToDrop(group, policy);
        if (reason === null) passed.set(groupIndex, group);
        const { kept, surplus } = reason === null ? quota.pass(groupIndex) : quota.drop(groupIndex);
        if (reason !== null) await decide(group, reason);
        await decidePassed(kept, null);
        await decidePassed(surplus, "surplus");
      }
      if (quota.isMet) scheduler.end(() => true, "surplus");
    },
  });
  await scheduler.run(options);
  return counter.totals({ concurrency: scheduler.concurrency });
}

function checkPlan({ taskIndexes, groupSize, taskset }: RolloutPlan): void {
  requireWhole("roll out", "groupSize", groupSize);
  const seen = new Set<number>();
  for (const index of taskIndexes) {
    if (seen.has(index)) throw new RangeError(`Cannot roll out: task ${index} is listed twice; list each task once.`);
    if (!Number.isInteger(index) || index < 0 || index >= taskset.size) {
      throw new RangeError(
        `Cannot roll out: there is no task ${index} in ${taskset.environment} (${taskset.split}); indexes go from 0 to ${taskset.size - 1}.`,
      );
    }
    seen.add(index);
  }
}
