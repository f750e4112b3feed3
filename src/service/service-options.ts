// The parts of the rollout service as values: it knows no engine, no environment and no exporter by name.

import type { EnvironmentSource, Episode, EpisodeSamples, SamplingParams } from "../core/index.ts";
import type { DispatchEpisode, GroupStore, RankGroup } from "../rollout/index.ts";
import type { Disk } from "../store/index.ts";
import type { RequestLog } from "./request-log.ts";
import type { TurnGate } from "./turn-gate.ts";

/** The policy of a request, and how it is sampled. */
export type PolicyRequest = {
  /** `null`: the engine that the service was started with. */
  readonly engineUrl: string | null;
  /** Differences from the service's own sampling. */
  readonly sampling: Partial<SamplingParams>;
};

/** All episodes that have ended, by id. */
export interface EpisodeArchive {
  /** `null` when there is none. */
  find(episodeId: string): Promise<Episode | null>;
}

/** An ended episode with its training rows. */
export type ExportedEpisode = { readonly episode: Episode; readonly result: EpisodeSamples };

/** Rows of episodes of one group in a trainer's layout. */
export type RowFormat = (
  ended: readonly ExportedEpisode[],
  groupIndex: number,
  /** "ignore": rewards of turns are left out, so that a format without a place for them does not refuse. */
  options: { readonly turnRewards: "keep" | "ignore" },
) => readonly unknown[];

export type ServiceParts = {
  readonly environment: EnvironmentSource;
  readonly defaultSplit: string;
  /** Cheap for a policy like an earlier one. Throws a `ConfigurationError` for an engine or a sampling that is not available. */
  readonly runner: (policy: PolicyRequest) => DispatchEpisode;
  /** Compares the episodes of each group before they are stored. Default: each has the reward of its own grade. */
  readonly rank?: RankGroup | null;
  /** Opened and closed by the caller. */
  readonly store: GroupStore;
  /** Below the store and the log of requests: while it refuses writes, requests get 503. Default: calls wait for the store. */
  readonly disk?: Disk;
  readonly archive: EpisodeArchive;
  readonly requests: RequestLog;
  /** Before every engine call of the runners. */
  readonly gate: TurnGate;
  /**
   * True if groups are stored together with their rows, in the first format. Default: false, since
   * rows are derived when they are fetched.
   */
  readonly writeSamples?: boolean;
  /** Formats of rows by name; the first is the default. */
  readonly formats: ReadonlyMap<string, RowFormat>;
  /** Seed of the service: seeds of episodes derive from it and the id of their group. */
  readonly seed: number;
  /** The page of `/metrics`; `null`: there is none. */
  readonly metrics: { readonly contentType: string; page(): Promise<string> } | null;
  /** Receives the error of a group that could not be recorded; the next process tries again. */
  readonly onFault?: (error: unknown) => void;
  /** Receives lines for people: the lease of a producer ran out, reported weights are not those of the servers. */
  readonly onNotice?: (message: string) => void;
  /** The gate was closed or opened: resolves when engine calls of other processes heed it. Default: there are none. */
  readonly onGate?: (isOpen: boolean) => Promise<void>;
  /**
   * Receives the version that a trainer reports, before producers do: its engines know it when this resolves, with the versions
   * that their servers name. Never rejects.
   */
  readonly onWeightVersion?: (version: string) => Promise<readonly (string | null)[]>;
};

/** Bounds of the service. Every one has a default. */
export type ServiceLimits = {
  /** Episodes at once. Default 256. */
  readonly concurrency: number;
  /** Episodes that may wait; more are refused with 429. Default 4,096. */
  readonly maxWaiting: number;
  /** Bytes of a request's body; more are refused with 413. Default 1 MiB. */
  readonly maxBodyBytes: number;
  /** Longest wait of a request, in milliseconds. Default 300,000. */
  readonly maxWaitMs: number;
  /** Episodes whose state stays in memory; those of older groups are read from the archive. Default 100,000. */
  readonly maxRemembered: number;
};

export const defaultServiceLimits: ServiceLimits = Object.freeze({
  concurrency: 256,
  maxWaiting: 4096,
  maxBodyBytes: 2 ** 20,
  maxWaitMs: 300_000,
  maxRemembered: 100_000,
});
