// A run that ends: groups of a plan are run, decided and recorded, until each task had its group or the quota is met. Not the
// loop of an episode (`episode/`), and not endless (`producer/`). When episodes run is decided by the scheduler, how many groups
// are needed by the quota; here finished groups become decisions and records.
//
//   planned ─► in flight ─► finished ─┬─ passes ─► kept, with its rows (or surplus, when enough are kept)
//      │           │                  └─ filtered, too few graded, cut off ─► dropped, with the reason
//      │           └─ the run is cancelled: its episodes are aborted, and it stays undecided, so that a later process resumes it
//      └─ drain, cancel or a fault: never started

import type { Episode, EpisodeEvent, GroupRecord, Taskset } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { AdaptiveConcurrency } from "./concurrency/episode-limit.ts";
import type { FinishedEpisode, RunEpisode } from "./episode-runner.ts";
import { GroupQuota, type QuotaDecisions, type QuotaOptions } from "./group-quota.ts";
import { type ExportSamples, GroupScheduler, type GroupStore } from "./group-scheduler.ts";
import {
  type FinishedGroup,
  groupIdOf,
  type GroupPolicy,
  type PlannedGroup,
  placeOf,
  reasonToDrop,
  resolveGroupPolicy,
  viewOf,
} from "./groups.ts";
import { type RunTotals, TotalsCounter } from "./run-totals.ts";
import { tasksInOrder, type TaskSource } from "./tasks.ts";

/** The tasks of a run. */
export type RolloutPlan = {
  readonly taskset: Taskset;
  /** Indexes of the tasks, in the order they are started; each at most once. */
  readonly taskIndexes: readonly number[];
  readonly groupSize: number;
  /** Of the run: every other seed derives from it, the group and the place in it. */
  readonly seed: number;
};

export type RolloutParts = {
  readonly runEpisode: RunEpisode;
  /** Begun by the caller, and closed by it. */
  readonly store: GroupStore;
  /** Groups that the store holds from an earlier process, by id: their episodes are counted, nothing is decided again. Default: none. */
  readonly decided?: ReadonlyMap<string, GroupRecord>;
  readonly exportSamples: ExportSamples;
};

export type RolloutOptions = {
  /** Episodes at once, or bounds between which their number follows the servers. Default: 64. */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** Which groups are kept. Default: every group with a reward, as it is. */
  readonly groups?: Partial<GroupPolicy>;
  /**
   * How many groups to keep. Default: `target` is `null`, so each task has one group and those that pass are kept. With a
   * number, groups are run until so many are kept, tasks repeatedly where they run out, at most `maxGroups` (default:
   * eight times as many); `oversample` 1 and `order` "plan".
   */
  readonly quota?: Partial<QuotaOptions>;
  /** The task of the next group. Default: the plan's in their order. */
  readonly tasks?: TaskSource;
  /** No further episode is started; running ones finish. */
  readonly drain?: AbortSignal;
  /** No further episode is started, and running ones are cancelled: outcome "aborted". */
  readonly signal?: AbortSignal;
  /** Called when an episode starts, at every turn, when an episode is stored and at every decision. Must be quick; `totals` may be called any number of times. */
  readonly onProgress?: (totals: () => RunTotals) => void;
  /** Called with each episode when it is stored. */
  readonly onEpisode?: (episode: Episode) => void;
  /** Called with each group when it is decided. */
  readonly onGroup?: (group: GroupRecord) => void;
  readonly clock?: Clock;
};

/**
 * Runs a plan. Resolves with the totals when all is decided or a signal stopped the run; all episodes that finished are
 * in the store then, and those that were cancelled are counted as aborted. Rejects with the first fault of the store, of an
 * export, of a filter or of the configuration, after running episodes are cancelled. Throws a `RangeError` for a plan or
 * options out of bounds, before anything starts.
 */
export async function runRollout(
  plan: RolloutPlan,
  parts: RolloutParts,
  options: RolloutOptions = {},
): Promise<RunTotals> {
  checkPlan(plan);
  return new Rollout(plan, parts, options).run();
}

class Rollout {
  readonly #plan: RolloutPlan;
  readonly #parts: RolloutParts;
  readonly #options: RolloutOptions;
  readonly #policy: GroupPolicy;
  readonly #quota: GroupQuota;
  readonly #tasks: TaskSource;
  readonly #counter: TotalsCounter;
  readonly #scheduler: GroupScheduler;
  /** How often each task was run. */
  readonly #visits = new Map<number, number>();
  /** Groups that passed and are not decided yet. */
  readonly #passed = new Map<number, FinishedGroup>();

  constructor(plan: RolloutPlan, parts: RolloutParts, options: RolloutOptions) {
    const { clock = systemClock, concurrency = 64, quota = {}, tasks } = options;
    const { groupSize, seed, taskIndexes } = plan;
    this.#plan = plan;
    this.#parts = parts;
    this.#options = options;
    this.#policy = resolveGroupPolicy(options.groups ?? {}, groupSize);
    const { target = null } = quota;
    const maxGroups = quota.maxGroups ?? (target === null ? Infinity : 8 * target);
    this.#quota = new GroupQuota({ oversample: 1, order: "plan", ...quota, target, maxGroups });
    this.#tasks = tasks ?? tasksInOrder(taskIndexes, { passes: target === null ? 1 : Infinity });
    const planned = { groups: target ?? taskIndexes.length, groupSize, target };
    this.#counter = new TotalsCounter(planned, () => clock.now());
    const { runEpisode, store, exportSamples, decided } = parts;
    this.#scheduler = new GroupScheduler({
      runEpisode,
      seed,
      groupSize,
      policy: this.#policy,
      concurrency,
      store,
      exportSamples,
      clock,
      nextGroup: () => this.#nextGroup(),
      placesOf: ({ groupId }) => decided?.get(groupId)?.episodeIds.map(placeOf) ?? null,
      onStart: () => {
        this.#counter.start();
        this.#report();
      },
      onEvent: (event) => this.#onEvent(event),
      onRecorded: (event) => this.#counter.recorded(event),
      onEpisode: (finished) => this.#onEpisode(finished),
      onGroup: (group) => this.#onGroup(group),
    });
  }

  async run(): Promise<RunTotals> {
    const { drain, signal } = this.#options;
    await this.#scheduler.run({ ...(drain && { drain }), ...(signal && { signal }) });
    return this.#totals();
  }

  #nextGroup(): PlannedGroup | null {
    if (!this.#quota.mayOpen) return null;
    const taskIndex = this.#tasks.next(this.#quota.opened);
    if (taskIndex === null || taskIndex === "later") return null;
    const groupIndex = this.#quota.open();
    const visit = (this.#visits.get(taskIndex) ?? 0) + 1;
    this.#visits.set(taskIndex, visit);
    const task = this.#plan.taskset.task(taskIndex);
    return { groupId: groupIdOf(task, visit), task, groupIndex };
  }

  #onEvent(event: EpisodeEvent): void {
    this.#counter.event(event);
    if (event.type === "turn" || event.type === "agent-reply") this.#report();
  }

  #onEpisode(finished: FinishedEpisode): void {
    this.#counter.finish(finished);
    this.#options.onEpisode?.(finished.episode);
    this.#report();
  }

  async #onGroup(group: FinishedGroup): Promise<void> {
    const { groupIndex, groupId, task } = group.plan;
    const rewards = group.ending === "surplus" ? [] : viewOf(group).rewards;
    this.#tasks.report({ groupIndex, taskIndex: task.index, rewards });
    const before = this.#parts.decided?.get(groupId);
    if (before !== undefined) {
      this.#quota.restore(groupIndex, before.decision);
      this.#count(before, group);
    } else {
      const reason = reasonToDrop(group, this.#policy);
      if (reason === null) {
        this.#passed.set(groupIndex, group);
        await this.#apply(this.#quota.pass(groupIndex));
      } else {
        const decisions = this.#quota.drop(groupIndex);
        await this.#decide(group, reason);
        await this.#apply(decisions);
      }
    }
    if (this.#quota.isMet) this.#scheduler.end(() => true, "surplus");
  }

  async #apply({ kept, surplus }: QuotaDecisions): Promise<void> {
    for (const groupIndex of kept) await this.#decide(this.#takePassed(groupIndex), null);
    for (const groupIndex of surplus) await this.#decide(this.#takePassed(groupIndex), "surplus");
  }

  #takePassed(groupIndex: number): FinishedGroup {
    const group = this.#passed.get(groupIndex)!;
    this.#passed.delete(groupIndex);
    return group;
  }

  /** `reason`: why it is dropped; `null`: it is kept. */
  async #decide(group: FinishedGroup, reason: string | null): Promise<void> {
    this.#count(await this.#scheduler.record(group, reason), group);
  }

  #count(record: GroupRecord, { members }: FinishedGroup): void {
    this.#counter.decide(
      record,
      members.map(({ finished }) => finished.result),
    );
    this.#options.onGroup?.(record);
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.(() => this.#totals());
  }

  #totals(): RunTotals {
    return this.#counter.totals({ concurrency: this.#scheduler.concurrency });
  }
}

function checkPlan({ taskIndexes, groupSize, taskset }: RolloutPlan): void {
  if (!Number.isInteger(groupSize) || groupSize < 1) {
    throw new RangeError(`Cannot roll out: groupSize is ${groupSize}, a whole number of at least 1 is needed.`);
  }
  const seen = new Set<number>();
  for (const index of taskIndexes) {
    if (seen.has(index)) throw new RangeError(`Cannot roll out: task ${index} is planned twice; name each task once.`);
    if (!Number.isInteger(index) || index < 0 || index >= taskset.size) {
      throw new RangeError(
        `Cannot roll out: there is no task ${index} in ${taskset.environment} (${taskset.split}); indexes go from 0 to ${taskset.size - 1}.`,
      );
    }
    seen.add(index);
  }
}
