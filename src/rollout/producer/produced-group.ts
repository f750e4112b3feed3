// What a producer hands to a trainer, and what it says of itself.

import type { GroupRecord } from "../../core/index.ts";
import type { FinishedEpisode } from "../episode-player.ts";

export type ProducedGroup = {
  /** Always kept. */
  readonly record: GroupRecord;
  /** By place in the group; each with its samples. */
  readonly episodes: readonly FinishedEpisode[];
  /** The trainer's version at hand-over minus that of the oldest token, counted in reported versions. */
  readonly staleness: number;
};

export type TakeOptions = {
  /** Gives up waiting; no group is lost by it. */
  readonly signal?: AbortSignal;
  /** Told which groups are handed over, before anything is recorded of them; what is recorded waits until it resolves. */
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
  /** Episodes that may be under way now. */
  readonly concurrency: number;
};
