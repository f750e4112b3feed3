// A run that ends: groups of a plan are played, judged and recorded, until each task had its group or as many groups are
// kept as the quota requests. Not the loop of an episode (`episodes/`), and not endless (`producer/`). Who runs next is the
// scheduler's, how many groups are needed is the quota's; here their groups become decisions and records.
//
//   planned ─► under way ─► ended ─┬─ passes ─► kept, with its rows (or surplus, when enough are kept)
//      │           │               └─ filtered, too few graded, cut off ─► dropped, with the reason
//      │           └─ the run is cancelled: its episodes are cut off, and it stays undecided, so that a resumed run goes on
//      └─ drain, cancel or a fault: never started

import type { Episode, EpisodeEvent, GroupRecord, Taskset } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import type { RunStore } from "../store/index.ts";
import { type AdaptiveConcurrency, createEpisodeLimit, type EpisodeLimit } from "./concurrency/episode-limit.ts";
import type { RunEpisode, FinishedEpisode } from "./episode-player.ts";
import { GroupScheduler } from "./group-scheduler.ts";
import { groupRecord, placeOf, resultsOf, type EpisodePosition, viewOf } from "./groups/group-record.ts";
import { type GroupPolicy, judgeGroup, resolveGroupPolicy } from "./groups/group-policy.ts";
import { GroupQuota, type QuotaDecisions, type QuotaOptions } from "./groups/group-quota.ts";
import { type EndedGroup, groupIdOf, type PlannedGroup } from "./groups/planned-group.ts";
import { type RunTotals, TotalsCounter } from "./run-totals.ts";
import { tasksInOrder, type TaskSource } from "./tasks/task-source.ts";

/** What is to be played. */
export type RolloutPlan = {
  readonly taskset: Taskset;
  /** Indexes of the tasks, in the order they are started; each at most once. */
  readonly taskIndexes: readonly number[];
  readonly groupSize: number;
  /** Of the run: every other seed derives from it, the task and the sample. */
  readonly seed: number;
};

export type RolloutParts = {
  readonly runEpisode: RunEpisode;
  /** Begun by the caller, and closed by it. */
  readonly store: Pick<RunStore, "append" | "appendGroup">;
  /** Groups that the store holds from before, by id: their episodes are counted, nothing is decided again. Default: none. */
  readonly decided?: ReadonlyMap<string, GroupRecord>;
  /** The rows of an episode of a kept group as texts; what it throws stops the run. */
  readonly exportSamples: (played: FinishedEpisode, place: EpisodePosition) => readonly string[];
};

export type RolloutOptions = {
  /** Episodes at once, or bounds between which their number follows the servers. Default: 64. */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** What is done with groups. Default: every group with a reward is kept as it is. */
  readonly groups?: Partial<GroupPolicy>;
  /**
   * How many groups to keep. Default: `target` is `null`, so each task has one group and those that pass are kept. With a
   * number, groups are played until so many are kept, tasks over again where they run out, at most `maxGroups` (default:
   * eight times as many); `oversample` 1 and `order` "plan".
   */
  readonly quota?: Partial<QuotaOptions>;
  /** Which task the next group plays. Default: the plan's in their order. */
  readonly tasks?: TaskSource;
  /** No further episode is started; running ones end in their own time. */
  readonly drain?: AbortSignal;
  /** No further episode is started, and running ones are cancelled: outcome "aborted". */
  readonly signal?: AbortSignal;
  /** Told of every episode that starts, of every turn, of every episode that is kept and of every decision. Must be quick; `totals` may be called any number of times. */
  readonly onProgress?: (totals: () => RunTotals) => void;
  /** Told of each episode when it is kept. */
  readonly onEpisode?: (episode: Episode) => void;
  /** Told of each group when it is decided. */
  readonly onGroup?: (group: GroupRecord) => void;
  readonly clock?: Clock;
};

/**
 * Plays a plan. Resolves with the totals when all is decided or the run was stopped by a signal; all episodes that ended are
 * in the store then, and those that were cut off are counted as aborted. Rejects with the first fault of the store, of an
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
  readonly #limit: EpisodeLimit;
  readonly #counter: TotalsCounter;
  readonly #scheduler: GroupScheduler;
  /** Times that a task has been played. */
  readonly #visits = new Map<number, number>();
  /** Groups that passed and are not decided yet. */
  readonly #passed = new Map<number, EndedGroup>();
  #isStopped = false;
  #fault: { readonly error: unknown } | null = null;
  #finish: () => void = () => undefined;

  constructor(plan: RolloutPlan, parts: RolloutParts, options: RolloutOptions) {
    const { clock = systemClock, concurrency = 64, quota = {}, tasks } = options;
    this.#plan = plan;
    this.#parts = parts;
    this.#options = options;
    this.#policy = resolveGroupPolicy(options.groups ?? {}, plan.groupSize);
    const { target = null } = quota;
    const maxGroups = quota.maxGroups ?? (target === null ? Infinity : 8 * target);
    this.#quota = new GroupQuota({ oversample: 1, order: "plan", ...quota, target, maxGroups });
    this.#tasks = tasks ?? tasksInOrder(plan.taskIndexes, { passes: target === null ? 1 : Infinity });
    this.#limit = createEpisodeLimit(concurrency, clock);
    const planned = { groups: target ?? plan.taskIndexes.length, groupSize: plan.groupSize, target };
    this.#counter = new TotalsCounter(planned, () => clock.now());
    this.#scheduler = new GroupScheduler({
      runEpisode: parts.runEpisode,
      seed: plan.seed,
      groupSize: plan.groupSize,
      replacements: this.#policy.replacements,
      cutoffMs: this.#policy.cutoff?.afterMs ?? null,
      clock,
      limit: () => this.#limit.current,
      nextGroup: () => this.#nextGroup(),
      placesOf: ({ groupId }) => parts.decided?.get(groupId)?.episodeIds.map(placeOf) ?? null,
      onStart: () => {
        this.#counter.start();
        this.#report();
      },
      onEvent: (event) => this.#onEvent(event),
      onRecorded: (event) => this.#counter.recorded(event),
      onEpisode: (played) => this.#onEpisode(played),
      onGroup: (group) => this.#onGroup(group),
      onIdle: () => this.#finish(),
      onFault: (error) => {
        this.#fault ??= { error };
      },
    });
  }

  async run(): Promise<RunTotals> {
    const { drain, signal } = this.#options;
    const onDrain = (): void => {
      this.#isStopped = true;
      this.#scheduler.pause();
    };
    const onCancel = (): void => {
      this.#isStopped = true;
      this.#scheduler.cancel();
    };
    drain?.addEventListener("abort", onDrain, { once: true });
    signal?.addEventListener("abort", onCancel, { once: true });
    try {
      if (drain?.aborted) onDrain();
      if (signal?.aborted) onCancel();
      const finished = new Promise<void>((resolve) => {
        this.#finish = resolve;
      });
      this.#limit.start({ running: () => this.#scheduler.running, onChange: () => this.#scheduler.pump() });
      this.#scheduler.pump();
      await finished;
    } finally {
      this.#limit.stop();
      this.#scheduler.close();
      drain?.removeEventListener("abort", onDrain);
      signal?.removeEventListener("abort", onCancel);
    }
    if (this.#fault !== null) throw this.#fault.error;
    return this.#totals();
  }

  #nextGroup(): PlannedGroup | null {
    if (this.#isStopped || !this.#quota.mayOpen) return null;
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
    this.#limit.observe(event);
    if (event.type === "turn" || event.type === "agent-reply") this.#report();
  }

  async #onEpisode(played: FinishedEpisode): Promise<void> {
    // An episode that the run cut off has not ended: its events are journalled, and a resumed run goes on with it.
    const isCutOff = this.#scheduler.isCancelled && played.episode.stopReason === "cancelled";
    if (played.origin !== "stored" && !isCutOff) await this.#parts.store.append(played.episode);
    this.#counter.finish(played);
    this.#options.onEpisode?.(played.episode);
    this.#report();
  }

  async #onGroup(group: EndedGroup): Promise<void> {
    const { groupIndex, groupId, task } = group.plan;
    const view = viewOf(group);
    const isJudged = group.ending !== "surplus";
    this.#tasks.report({ groupIndex, taskIndex: task.index, rewards: isJudged ? view.rewards : [] });
    const before = this.#parts.decided?.get(groupId);
    if (before !== undefined) {
      this.#quota.restore(groupIndex, before.decision);
      this.#count(before, group);
    } else {
      const reason = this.#reasonToDrop(group);
      if (reason === null) {
        this.#passed.set(groupIndex, group);
        await this.#carryOut(this.#quota.pass(groupIndex));
      } else {
        const decisions = this.#quota.drop(groupIndex);
        await this.#decide(group, reason);
        await this.#carryOut(decisions);
      }
    }
    if (this.#quota.isMet) this.#scheduler.end(() => true, "surplus");
  }

  #reasonToDrop(group: EndedGroup): string | null {
    if (group.ending === "surplus") return "surplus";
    return judgeGroup(viewOf(group), this.#policy, group.ending === "cut-off");
  }

  async #carryOut({ kept, surplus }: QuotaDecisions): Promise<void> {
    for (const [groups, reason] of [
      [kept, null],
      [surplus, "surplus"],
    ] as const) {
      for (const groupIndex of groups) {
        const group = this.#passed.get(groupIndex)!;
        this.#passed.delete(groupIndex);
        await this.#decide(group, reason);
      }
    }
  }

  /** `reason`: why it is dropped; `null`: it is kept. */
  async #decide(group: EndedGroup, reason: string | null): Promise<void> {
    const record = groupRecord(group, reason);
    this.#count(record, group);
    await this.#parts.store.appendGroup({
      group: record,
      sampleLines: reason === null ? this.#rows(group, record) : [],
    });
  }

  #rows(group: EndedGroup, record: GroupRecord): string[] {
    const { groupIndex } = group.plan;
    // Numbers of episodes are those of the plan, whatever was played.
    const stride = this.#plan.groupSize + this.#policy.replacements;
    return group.members.flatMap(({ sampleIndex, played }) =>
      this.#parts.exportSamples(played, { index: groupIndex * stride + sampleIndex, groupIndex, group: record }),
    );
  }

  #count(record: GroupRecord, group: EndedGroup): void {
    this.#counter.decide(record, resultsOf(group));
    this.#options.onGroup?.(record);
    this.#report();
  }

  #report(): void {
    this.#options.onProgress?.(() => this.#totals());
  }

  #totals(): RunTotals {
    return this.#counter.totals({ concurrency: this.#limit.current });
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
