// The only scheduler of groups: opens planned groups, starts their episodes within the limit,
// stores those that finish, and hands over complete groups. Its owner chooses the next group and
// decides about finished ones: a list (`runGroups` below), a run with a quota (`run-rollout.ts`),
// or a producer with a staleness bound (`producer/`).
//
//   group:    opened ─► in flight ─► last episode finished ─► handed over
//                          └─ cut off, surplus, stale: running episodes are cancelled, the rest is not started
//   episode:  started ─► finished ─► stored, and its place is free once the owner has it
//                            └─ of a group that is compared: held until then, its place free at once
//
// No group starves: a free place goes to the oldest open group that has an episode to start, and a
// new group is opened only when no open group has one.

import type { Episode, EpisodeEvent, GroupRecord, Task } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import { requireWhole } from "../lib/limits.ts";
import type { RunStore } from "../store/index.ts";
import { type AdaptiveConcurrency, createEpisodeLimit, type EpisodeLimit } from "./concurrency/episode-limit.ts";
import { type DispatchEpisode, type EndedEpisode, endedOf, type FinishedEpisode } from "./episode-runner.ts";
import type { EpisodeOptions, EpisodeParts } from "./episode/episode-options.ts";
import type { RankGroup } from "./rank-group.ts";
import { runEpisode } from "./episode/run-episode.ts";
import {
  episodeKey,
  type EpisodePosition,
  episodeSeed,
  type FinishedGroup,
  type GroupMember,
  type GroupPolicy,
  groupRecord,
  keepAllGroups,
  type PlannedGroup,
} from "./groups.ts";

/** Storage of episodes and decisions. Opened and closed by the caller. */
export type GroupStore = Pick<RunStore, "append" | "appendGroup">;

/** The rows of an episode of a kept group, one string each; an error stops the run. */
export type ExportSamples = (finished: FinishedEpisode, position: EpisodePosition) => readonly string[];

export type SchedulerOptions = {
  readonly runEpisode: DispatchEpisode;
  /**
   * Seed of the run: seeds of episodes derive from it, their group's id and their place in the
   * group.
   */
  readonly seed: number;
  /** Episodes of a group. */
  readonly groupSize: number;
  /**
   * Policy; the scheduler applies its `replacements` and `cutoff`. Default: {@link keepAllGroups}.
   */
  readonly policy?: GroupPolicy;
  /** Limit of episodes in flight, or bounds between which the limit follows the servers. */
  readonly concurrency: number | AdaptiveConcurrency;
  /** The bound does not apply while this returns true. Default: it always applies. */
  readonly isUnbounded?: () => boolean;
  /** Default: nothing is recorded. */
  readonly store?: GroupStore | undefined;
  /** Compares the episodes of a group that has ended, before they are stored. Default: each has the reward of its own grade. */
  readonly rank?: RankGroup | null | undefined;
  /** Default: no rows. */
  readonly exportSamples?: ExportSamples | undefined;
  readonly clock: Clock;
  /**
   * Returns the next group; `null` if there is none at the moment. Called again whenever an episode
   * has finished, and on `pump`.
   */
  readonly nextGroup: () => PlannedGroup | null;
  /**
   * Places of a group to run, for groups of which an earlier run stored some; `null`: all. Default:
   * all.
   */
  readonly placesOf?: (plan: PlannedGroup) => readonly number[] | null;
  readonly onStart?: (plan: PlannedGroup) => void;
  readonly onEvent?: (event: EpisodeEvent, plan: PlannedGroup) => void;
  /** Receives events of an episode that earlier processes recorded. */
  readonly onRecorded?: (event: EpisodeEvent, plan: PlannedGroup) => void;
  /** Called once an episode is in the store. */
  readonly onEpisode?: (ended: EndedEpisode) => void;
  readonly onGroup: (group: FinishedGroup) => void | Promise<void>;
  /** Called when nothing is in flight and nothing can be started. */
  readonly onIdle?: () => void;
  /**
   * Receives an error that `runEpisode`, the store or a callback threw. Everything is cancelled
   * next.
   */
  readonly onFault?: (error: unknown) => void;
};

type OpenGroup = {
  readonly plan: PlannedGroup;
  /** Places that are not started yet, in order. */
  readonly waiting: number[];
  nextReplacement: number;
  replacementsLeft: number;
  readonly running: Set<AbortController>;
  readonly members: GroupMember[];
  ending: FinishedGroup["ending"];
  cancelCutoff: (() => void) | null;
};

export class GroupScheduler {
  readonly #options: SchedulerOptions;
  readonly #policy: GroupPolicy;
  readonly #limit: EpisodeLimit;
  /** Open groups, the oldest first. */
  readonly #open: OpenGroup[] = [];
  #running = 0;
  /** Number of episodes in flight, and of groups being handed over without one. */
  #busy = 0;
  #startsEpisodes = true;
  #isCancelled = false;
  /** Aborts comparisons of groups. */
  readonly #cancelled = new AbortController();
  #isPumping = false;
  #resolveIdle: () => void = () => undefined;
  #fault: { readonly error: unknown } | null = null;

  constructor(options: SchedulerOptions) {
    this.#options = options;
    this.#policy = options.policy ?? keepAllGroups;
    this.#limit = createEpisodeLimit(options.concurrency, options.clock);
  }

  /** Episodes in flight. */
  get running(): number {
    return this.#running;
  }

  /** Groups in flight. */
  get openGroups(): number {
    return this.#open.length;
  }

  /** Current limit of episodes in flight. */
  get concurrency(): number {
    return this.#limit.current;
  }

  start(): void {
    this.#limit.start({ running: () => this.#running, onChange: () => this.pump() });
    this.pump();
  }

  /** Cancels all timers. */
  close(): void {
    this.#limit.stop();
    for (const group of this.#open) group.cancelCutoff?.();
  }

  /**
   * Runs until nothing is in flight and nothing can be started. `drain`: no further episode is
   * started; running ones finish. `signal`: calls {@link cancel}. Rejects with the first fault,
   * after running episodes are cancelled.
   */
  async run({
    drain,
    signal,
  }: {
    readonly drain?: AbortSignal | undefined;
    readonly signal?: AbortSignal | undefined;
  }) {
    const subscriptions = [subscribeToAbort(drain, () => this.pause()), subscribeToAbort(signal, () => this.cancel())];
    try {
      await new Promise<void>((resolve) => {
        this.#resolveIdle = resolve;
        this.start();
      });
    } finally {
      this.close();
      for (const unsubscribe of subscriptions) unsubscribe();
    }
    if (this.#fault !== null) throw this.#fault.error;
  }

  /**
   * Starts all episodes that may start. Call it when limits, groups or states have changed;
   * redundant calls are harmless.
   */
  pump(): void {
    // Functions called from here may call `pump` again.
    if (this.#isPumping) return;
    this.#isPumping = true;
    try {
      while (this.#startsEpisodes && this.#hasRoom()) {
        const group = this.#open.find(({ waiting }) => waiting.length > 0) ?? this.#openNext();
        if (group === null) break;
        this.#start(group, group.waiting.shift()!);
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#isPumping = false;
    }
    this.#checkIdle();
  }

  /** Stops starting episodes until `continue`; running ones finish. */
  pause(): void {
    this.#startsEpisodes = false;
  }

  continue(): void {
    if (this.#isCancelled) return;
    this.#startsEpisodes = true;
    this.pump();
  }

  /** Cancels all running episodes permanently. Open groups are not handed over. */
  cancel(): void {
    this.#isCancelled = true;
    this.#startsEpisodes = false;
    this.#cancelled.abort(new Error("The run was cancelled."));
    for (const group of this.#open) {
      for (const controller of group.running) controller.abort(new Error("The run was cancelled."));
    }
    this.#checkIdle();
  }

  /**
   * Ends groups early; their finished episodes are handed over. Groups that are not open are not
   * affected.
   */
  end(which: (plan: PlannedGroup) => boolean, ending: Exclude<FinishedGroup["ending"], "complete">): void {
    for (const group of this.#open.filter(({ plan }) => which(plan))) this.#end(group, ending);
  }

  /**
   * Records a decision, with the rows of the group when it is kept. `reason`: the reason for
   * dropping it; `null`: it is kept.
   */
  async record(group: FinishedGroup, reason: string | null): Promise<GroupRecord> {
    const { store, exportSamples, groupSize } = this.#options;
    const { groupIndex } = group.plan;
    const record = groupRecord(group, reason);
    if (store === undefined) return record;
    // Episodes are numbered by the plan, even if some of it did not run.
    const first = groupIndex * (groupSize + this.#policy.replacements);
    const sampleLines: string[] = [];
    if (reason === null && exportSamples !== undefined) {
      for (const { sampleIndex, ended } of group.members) {
        const position = { index: first + sampleIndex, groupIndex, group: record };
        sampleLines.push(...exportSamples(await ended.open(), position));
      }
    }
    await store.appendGroup({ group: record, sampleLines });
    return record;
  }

  #hasRoom(): boolean {
    return this.#running < this.#limit.current || this.#options.isUnbounded?.() === true;
  }

  #checkIdle(): void {
    if (this.#busy > 0) return;
    this.#resolveIdle();
    this.#options.onIdle?.();
  }

  #end(group: OpenGroup, ending: Exclude<FinishedGroup["ending"], "complete">): void {
    if (group.ending === "complete") group.ending = ending;
    group.waiting.length = 0;
    group.replacementsLeft = 0;
    group.cancelCutoff?.();
    for (const controller of group.running) controller.abort(new Error(`The group was ended early: ${ending}.`));
    // Handed over here, because no running episode will do it.
    if (group.running.size === 0) void this.#settle(group, null);
  }

  #openNext(): OpenGroup | null {
    const { nextGroup, placesOf, groupSize } = this.#options;
    const plan = nextGroup();
    if (plan === null) return null;
    const places = placesOf?.(plan) ?? null;
    const group: OpenGroup = {
      plan,
      waiting: [...(places ?? Array.from({ length: groupSize }, (_, place) => place))],
      nextReplacement: groupSize,
      replacementsLeft: places === null ? this.#policy.replacements : 0,
      running: new Set(),
      members: [],
      ending: "complete",
      cancelCutoff: null,
    };
    this.#open.push(group);
    return group;
  }

  #start(group: OpenGroup, sampleIndex: number): void {
    const { onStart, clock } = this.#options;
    const { cutoff } = this.#policy;
    onStart?.(group.plan);
    // The cutoff starts once all episodes have begun; until then the delay is not theirs.
    if (cutoff !== null && group.waiting.length === 0) {
      group.cancelCutoff ??= clock.after(cutoff.afterMs, () => this.#end(group, "cut-off"));
    }
    const controller = new AbortController();
    group.running.add(controller);
    this.#running++;
    const finished = this.#run(group, sampleIndex, controller.signal).finally(() => {
      group.running.delete(controller);
      this.#running--;
    });
    void this.#settle(group, finished);
  }

  async #run(group: OpenGroup, sampleIndex: number, signal: AbortSignal): Promise<void> {
    const { runEpisode: run, store, onEvent, onRecorded, onEpisode, seed, rank = null } = this.#options;
    const { plan } = group;
    const finished = await run(plan.task, {
      ...episodeKey(plan, sampleIndex, seed),
      signal,
      onEvent: (event) => {
        this.#limit.observe(event);
        onEvent?.(event, plan);
      },
      onObserved: (observed) => this.#limit.count(observed),
      ...(onRecorded === undefined ? {} : { onRecorded: (event) => onRecorded(event, plan) }),
    });
    if (finished === null) return;
    const ended = endedOf(finished);
    // The episode is held until its group is compared; in a cancelled run a later process compares
    // it.
    const isHeld = rank !== null;
    if (!isHeld) await this.#store(ended, store);
    if (!isHeld || this.#isCancelled) onEpisode?.(ended);
    group.members.push({ sampleIndex, ended });
    if (ended.summary.reward === null && group.replacementsLeft > 0) {
      group.replacementsLeft--;
      group.waiting.push(group.nextReplacement++);
    }
  }

  async #store({ summary, store: record }: EndedEpisode, store: GroupStore | undefined): Promise<void> {
    // An episode that a cancelled run aborted has not ended: its events are in the journal, and a later process resumes it.
    const isUnfinished = this.#isCancelled && summary.stopReason === "cancelled";
    if (record !== null && !isUnfinished && store !== undefined) await record(store);
  }

  /** Hands the group over if `episode` was its last, and frees its place. Never rejects. */
  async #settle(group: OpenGroup, episode: Promise<void> | null): Promise<void> {
    this.#busy++;
    try {
      await episode;
      if (group.running.size === 0 && group.waiting.length === 0 && !this.#isCancelled) await this.#handOver(group);
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#busy--;
    }
    this.pump();
  }

  async #handOver(group: OpenGroup): Promise<void> {
    const place = this.#open.indexOf(group);
    // Two episodes may finish at the same moment; the first of them hands over.
    if (place === -1) return;
    this.#open.splice(place, 1);
    group.cancelCutoff?.();
    const members = group.members.toSorted((left, right) => left.sampleIndex - right.sampleIndex);
    const finished: FinishedGroup = { plan: group.plan, members, ending: group.ending };
    const { rank = null } = this.#options;
    const compared = rank === null ? finished : await this.#compare(rank, finished);
    if (compared !== null) await this.#options.onGroup(compared);
  }

  /** Compares and stores the episodes of a group; `null` if the run was cancelled before. */
  async #compare(rank: RankGroup, group: FinishedGroup): Promise<FinishedGroup | null> {
    const { store, seed, onEvent, onEpisode } = this.#options;
    const { signal } = this.#cancelled;
    const compared = await rank(group, { seed, signal }).catch((error: unknown) => {
      if (signal.aborted) return null;
      throw error;
    });
    // Stored in order, because the ranking is recorded with the first of them.
    for (const [place, { ended }] of (compared?.members ?? []).entries()) {
      if (ended !== group.members[place]!.ended) {
        const { events } = (await ended.open()).episode;
        const judged = events.find((event) => event.type === "judgement" && event.ranked !== null);
        if (judged !== undefined) onEvent?.(judged, group.plan);
      }
      await this.#store(ended, store);
      onEpisode?.(ended);
    }
    return compared;
  }

  #fail(error: unknown): void {
    this.#fault ??= { error };
    this.#options.onFault?.(error);
    this.cancel();
  }
}

export type RunGroupsOptions = Pick<SchedulerOptions, "runEpisode" | "store" | "rank" | "onEpisode"> & {
  /** Episodes of a group, at least 1. */
  readonly groupSize: number;
  /**
   * Seed of the run: seeds of episodes derive from it, their group's id and their place in the
   * group. Default: 0.
   */
  readonly seed?: number;
  /**
   * Limit of episodes in flight, or bounds between which the limit follows the servers. Default:
   * `Infinity`.
   */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** Stops starting episodes, and cancels the running ones. */
  readonly signal?: AbortSignal;
  /** Default: the real clock. */
  readonly clock?: Clock;
};

/**
 * Runs each group once, in the given order. Resolves with the finished groups in that order,
 * without those that were open when `signal` aborted. Rejects with the first error of a runner or
 * the store, after running episodes are cancelled; a failed episode is not such an error. Throws a
 * `RangeError` for a size or a bound below 1.
 *
 * @example
 * const plans = tasks.map((task, groupIndex) => ({ groupId: task.id, task, groupIndex }));
 * const groups = await runGroups(plans, { runEpisode: episodeRunner(parts), groupSize: 8, concurrency: 64 });
 */
export async function runGroups(
  groups: Iterable<PlannedGroup>,
  options: RunGroupsOptions,
): Promise<readonly FinishedGroup[]> {
  const { groupSize, seed = 0, concurrency = Infinity, clock = systemClock, signal, ...rest } = options;
  requireWhole("run groups", "groupSize", groupSize);
  const plans = groups[Symbol.iterator]();
  const order: PlannedGroup[] = [];
  const finished = new Map<PlannedGroup, FinishedGroup>();
  const scheduler = new GroupScheduler({
    ...rest,
    groupSize,
    seed,
    concurrency,
    clock,
    nextGroup: () => {
      const next = plans.next();
      if (next.done === true) return null;
      order.push(next.value);
      return next.value;
    },
    onGroup: (group) => void finished.set(group.plan, group),
  });
  await scheduler.run({ signal });
  return order.flatMap((plan) => finished.get(plan) ?? []);
}

/** The episodes of one task whose rewards are compared. */
export type Group = { readonly id: string; readonly task: Task; readonly episodes: readonly Episode[] };

/** Runs `groupSize` episodes of one task at once; `seed` is the run's. A failed episode never cancels the others. */
export async function runGroup(
  task: Task,
  parts: EpisodeParts,
  options: Omit<EpisodeOptions, "sampleIndex" | "episodeId"> & { readonly groupSize: number },
): Promise<Group> {
  const { groupSize, seed = 0, groupId = task.id, ...rest } = options;
  const episodes: Episode[] = [];
  await runGroups([{ groupId, task, groupIndex: 0 }], {
    groupSize,
    runEpisode: async (_task, { sampleIndex }) => {
      const own = { ...rest, groupId, sampleIndex, seed: episodeSeed(seed, task.id, sampleIndex) };
      const episode = await runEpisode(task, parts, own);
      episodes[sampleIndex] = episode;
      return { episode, result: { samples: [], dropped: [] }, origin: "new" };
    },
  });
  return { id: groupId, task, episodes };
}
