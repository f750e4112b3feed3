// What a producer is made of: what it plays, with what, and how.

import type { EpisodeEvent, GroupRecord, Taskset } from "../../core/index.ts";
import type { Clock } from "../../lib/clock.ts";
import type { RunStore } from "../../store/index.ts";
import type { AdaptiveConcurrency } from "../concurrency/episode-limit.ts";
import type { EpisodePlayer, PlayedEpisode } from "../episode-player.ts";
import type { GroupPolicy } from "../groups/group-policy.ts";
import type { SamplePlace } from "../groups/group-record.ts";
import type { TaskSource } from "../tasks/task-source.ts";

export type ProducerPlan = {
  readonly taskset: Taskset;
  /** Which task the next group plays; over again for as long as the trainer trains. */
  readonly tasks: TaskSource;
  readonly samplesPerTask: number;
  readonly seed: number;
  /** Groups that the trainer takes for one version of the weights. */
  readonly batchGroups: number;
};

export type ProducerParts = {
  readonly play: EpisodePlayer;
  /** Where episodes and decisions are recorded. Begun by the caller, and closed by it. Default: nowhere. */
  readonly store?: Pick<RunStore, "append" | "appendGroup">;
  /** Groups that the store holds from before, by id: they are not played again. Default: none. */
  readonly decided?: ReadonlyMap<string, GroupRecord>;
  /** Rows of an episode of a group that is taken, for the store. Default: none. */
  readonly exportSamples?: (played: PlayedEpisode, place: SamplePlace) => readonly string[];
};

export type ProducerOptions = {
  /**
   * Versions by which the oldest token of a group may be older than the trainer's weights when it is handed over. 0 is
   * synchronous: nothing is begun before the trainer reports the weights that its last batch made. Default: 1.
   */
  readonly maxStaleness?: number;
  /** A group that became too old is dropped; with "requeue" its task is played again, next. Default: "drop". */
  readonly stale?: "drop" | "requeue";
  /** Groups that may be under way or wait to be taken, within what staleness allows. Default: `maxStaleness + 1` batches, 2 at least; 2 when staleness is not bounded. */
  readonly bufferGroups?: number;
  /** Version that the engine has at the beginning. Default: `null`, not known. */
  readonly weightVersion?: string | null;
  /** Episodes at once, or bounds between which their number follows the servers. Default: 64. */
  readonly concurrency?: number | AdaptiveConcurrency;
  /** What is done with groups. Default: every group with a reward is kept as it is. */
  readonly groups?: Partial<GroupPolicy>;
  /** Told of every event of every episode that happens now, and of none that an earlier process recorded. */
  readonly onEvent?: (event: EpisodeEvent) => void;
  /** Told of each group when it is decided: taken, or dropped. */
  readonly onGroup?: (group: GroupRecord) => void;
  readonly clock?: Clock;
};

/** Throws a `RangeError` that names the number and its value. */
export function checkProducer(
  { samplesPerTask, batchGroups }: ProducerPlan,
  { maxStaleness, bufferGroups }: { readonly maxStaleness: number; readonly bufferGroups: number },
): void {
  const require = (name: string, value: number, least: number, mayBeInfinite: boolean): void => {
    if ((Number.isInteger(value) && value >= least) || (mayBeInfinite && value === Infinity)) return;
    throw new RangeError(`Cannot produce groups: ${name} is ${value}, a whole number of at least ${least} is needed.`);
  };
  require("samplesPerTask", samplesPerTask, 1, false);
  require("batchGroups", batchGroups, 1, false);
  require("maxStaleness", maxStaleness, 0, true);
  require("bufferGroups", bufferGroups, 1, true);
}
