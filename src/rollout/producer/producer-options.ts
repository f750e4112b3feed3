// Plan, parts and options of a producer, and the groups that it gives a trainer.

import type { EpisodeEvent, GroupRecord, Task, Taskset } from "../../core/index.ts";
import type { Clock } from "../../lib/clock.ts";
import type { AdaptiveConcurrency } from "../concurrency/episode-limit.ts";
import type { DispatchEpisode, FinishedEpisode } from "../episode-runner.ts";
import type { RankGroup } from "../rank-group.ts";
import type { ExportSamples, GroupStore } from "../group-scheduler.ts";
import type { GroupPolicy, TaskSource } from "../groups.ts";

export type ProducerPlan = {
  readonly taskset: Taskset;
  /** The task of each group; unlimited, as long as the trainer trains. */
  readonly tasks: TaskSource;
  readonly groupSize: number;
  readonly seed: number;
  /** Number of groups that the trainer takes per version of the weights. */
  readonly batchGroups: number;
};

/** Facts about a group when it begins, for later processes. */
export type BegunGroup = {
  readonly groupId: string;
  readonly taskIndex: number;
  /**
   * True: its task is run again because an earlier group of it became too old. False: the task
   * source drew it.
   */
  readonly isRequeued: boolean;
  /** Number of versions reported before it was begun. */
  readonly version: number;
};

/** State of earlier processes, so that this one continues as if they had been one. */
export type EarlierProduction = {
  readonly state: "running" | "paused" | "draining" | "cancelled";
  /** Groups in the order in which `onBegin` received them, decided ones included. */
  readonly begun: readonly BegunGroup[];
  /** Decisions, by id of the group, in the order in which they were made. Kept groups count as handed over. */
  readonly decided: ReadonlyMap<string, GroupRecord>;
  /** Versions that the trainer reported, in order. */
  readonly versions: readonly string[];
};

export type ProducerParts = {
  readonly runEpisode: DispatchEpisode;
  /** Storage of episodes and decisions. Begun and closed by the caller. Default: nothing is stored. */
  readonly store?: GroupStore;
  /** State of earlier processes. Default: none. */
  readonly earlier?: EarlierProduction;
  /** Makes the stored rows of an episode of a taken group. Default: none. */
  readonly exportSamples?: ExportSamples | undefined;
  /** True: groups that are taken come with their episodes. Default: true. */
  readonly opensEpisodes?: boolean;
  /** Compares the episodes of each group before they are stored. Default: each has the reward of its own grade. */
  readonly rank?: RankGroup | null;
};

export type ProducerOptions = {
  /**
   * Maximum staleness of a group at hand-over: versions by which its oldest token is older than the
   * trainer's weights. 0 is synchronous: nothing is begun before the trainer reports the weights
   * trained on its last batch. Default: 1.
   */
  readonly maxStaleness?: number;
  /**
   * Reaction to a group that became too old: it is dropped; with "requeue" its task is also run
   * again, next. Default: "drop".
   */
  readonly stale?: "drop" | "requeue";
  /**
   * Maximum number of groups in flight or waiting to be taken, within the bound of staleness.
   * Default: `maxStaleness + 1` batches, at least 2; 2 when staleness is not bounded.
   */
  readonly bufferGroups?: number;
  /** Initial weight version of the engine. Default: `null`, not known. */
  readonly weightVersion?: string | null;
  /**
   * Limit of episodes in flight, or bounds between which the limit follows the servers. Default:
   * 64.
   */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** Policy for keeping groups. Default: every group with a reward is kept. */
  readonly groups?: Partial<GroupPolicy>;
  /** Receives every new event of every episode, but no event that an earlier process recorded. */
  readonly onEvent?: (event: EpisodeEvent) => void;
  /**
   * Names groups, equally in every process. Default: the task's id, and `<task id>@2` and so on
   * when it is run again.
   */
  readonly nameGroup?: (task: Task, visit: number) => string;
  /** Receives each group before its first episode runs, except those that an earlier process began. */
  readonly onBegin?: (group: BegunGroup) => void;
  /** Receives each group when it is decided: taken, or dropped. */
  readonly onGroup?: (group: GroupRecord) => void;
  readonly clock?: Clock;
};

export type ProducedGroup = {
  /** Record of a kept group. */
  readonly record: GroupRecord;
  /** Episodes by place in the group, each with its samples. */
  readonly episodes: readonly FinishedEpisode[];
  /** The trainer's version at hand-over minus that of the oldest token, counted in reported versions. */
  readonly staleness: number;
};

export type TakeOptions = {
  /** Stops waiting; no groups are lost. */
  readonly signal?: AbortSignal;
  /** Receives the groups that are handed over, before they are recorded; recording waits until it resolves. */
  readonly onHandedOver?: (groups: readonly TakenGroup[]) => void | Promise<void>;
};

export type TakenGroup = Pick<ProducedGroup, "staleness"> & { readonly groupId: string };

export type ProducerState = "running" | "paused" | "draining" | "ended" | "cancelled" | "failed";

export type ProducerStatus = {
  readonly state: ProducerState;
  /** Number of versions reported so far. */
  readonly version: number;
  readonly runningEpisodes: number;
  readonly openGroups: number;
  /** Number of groups that wait to be taken. */
  readonly buffered: number;
  readonly handedOver: number;
  /** Dropped groups, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Current limit of episodes in flight. */
  readonly concurrency: number;
};
