// Plan, parts and options of a producer, and the groups that it gives a trainer.

import type { EpisodeEvent, GroupRecord, Task, Taskset } from "../../core/index.ts";
import type { Clock } from "../../lib/clock.ts";
import type { AdaptiveConcurrency } from "../concurrency/episode-limit.ts";
import type { DispatchEpisode, FinishedEpisode } from "../episode-runner.ts";
import type { RankGroup } from "../rank-group.ts";
import type { ExportSamples, GroupStore } from "../group-scheduler.ts";
import type { GroupPolicy } from "../groups.ts";
import type { TaskSource } from "../tasks.ts";

export type ProducerPlan = {
  readonly taskset: Taskset;
  /** The task of each group; repeatedly for as long as the trainer trains. */
  readonly tasks: TaskSource;
  readonly groupSize: number;
  readonly seed: number;
  /** Groups that the trainer takes for one version of the weights. */
  readonly batchGroups: number;
};

/** A group when it is begun: what a later process must know of it. */
export type BegunGroup = {
  readonly groupId: string;
  readonly taskIndex: number;
  /** Its task is run again because a group of it became too old. Otherwise the task source drew it. */
  readonly isRequeued: boolean;
  /** Number of versions reported before it was begun. */
  readonly version: number;
};

/** The state of earlier processes, so that this one continues as if there had been only one. */
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
  /** Where episodes and decisions are recorded. Begun by the caller, and closed by it. Default: nowhere. */
  readonly store?: GroupStore;
  /** Default: nothing, the producer begins. */
  readonly earlier?: EarlierProduction;
  /** Rows of an episode of a group that is taken, for the store. Default: none. */
  readonly exportSamples?: ExportSamples | undefined;
  /** True: groups that are taken come with their episodes. Default: true. */
  readonly opensEpisodes?: boolean;
  /** Compares the episodes of each group before they are stored. Default: each has the reward of its own grade. */
  readonly rank?: RankGroup | null;
};

export type ProducerOptions = {
  /**
   * Versions by which the oldest token of a group may be older than the trainer's weights when it is handed over. 0 is
   * synchronous: nothing is begun before the trainer reports the weights that its last batch made. Default: 1.
   */
  readonly maxStaleness?: number;
  /** A group that became too old is dropped; with "requeue" its task is run again, next. Default: "drop". */
  readonly stale?: "drop" | "requeue";
  /** Groups that may be in flight or wait to be taken, within what staleness allows. Default: `maxStaleness + 1` batches, 2 at least; 2 when staleness is not bounded. */
  readonly bufferGroups?: number;
  /** Version that the engine has at the beginning. Default: `null`, not known. */
  readonly weightVersion?: string | null;
  /** Episodes at once, or bounds between which their number follows the servers. Default: 64. */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** Which groups are kept. Default: every group with a reward, as it is. */
  readonly groups?: Partial<GroupPolicy>;
  /** Receives every new event of every episode, and none that an earlier process recorded. */
  readonly onEvent?: (event: EpisodeEvent) => void;
  /** Names groups; equal in every process. Default: the task's id, and `<task id>@2` and so on when it is run again. */
  readonly nameGroup?: (task: Task, visit: number) => string;
  /** Receives each group before its first episode runs; not those that an earlier process began. */
  readonly onBegin?: (group: BegunGroup) => void;
  /** Receives each group when it is decided: taken, or dropped. */
  readonly onGroup?: (group: GroupRecord) => void;
  readonly clock?: Clock;
};

export type ProducedGroup = {
  /** Always kept. */
  readonly record: GroupRecord;
  /** Episodes by place in the group, each with its samples. */
  readonly episodes: readonly FinishedEpisode[];
  /** The trainer's version at hand-over minus that of the oldest token, counted in reported versions. */
  readonly staleness: number;
};

export type TakeOptions = {
  /** Gives up waiting; no group is lost by it. */
  readonly signal?: AbortSignal;
  /** Receives the groups that are handed over, before they are recorded; recording waits until it resolves. */
  readonly onTaken?: (groups: readonly TakenGroup[]) => void | Promise<void>;
};

export type TakenGroup = Pick<ProducedGroup, "staleness"> & { readonly groupId: string };

export type ProducerState = "running" | "paused" | "draining" | "ended" | "cancelled" | "failed";

export type ProducerStatus = {
  readonly state: ProducerState;
  /** Versions reported so far. */
  readonly version: number;
  readonly runningEpisodes: number;
  readonly openGroups: number;
  /** Groups that wait to be taken. */
  readonly buffered: number;
  readonly handedOver: number;
  /** Dropped groups, by reason. */
  readonly dropped: Readonly<Record<string, number>>;
  /** Episodes that may be in flight now. */
  readonly concurrency: number;
};
