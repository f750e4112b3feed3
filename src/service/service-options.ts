// Parts of the rollout service as values: it depends on no specific engine, environment or
// exporter.

import type { EnvironmentSource, Episode, EpisodeSamples, SamplingParams } from "../core/index.ts";
import type { DispatchEpisode, GroupStore, RankGroup } from "../rollout/index.ts";
import type { Disk } from "../store/index.ts";
import type { RequestLog } from "./request-log.ts";
import type { TurnGate } from "./turn-gate.ts";

/** The policy of a request, and its sampling parameters. */
export type PolicyRequest = {
  /** URL of the engine; `null` for the engine that the service was started with. */
  readonly engineUrl: string | null;
  /** Differences from the service's own sampling. */
  readonly sampling: Partial<SamplingParams>;
};

/** All episodes that have ended, by id. */
export interface EpisodeArchive {
  /** The episode; `null` if there is none. */
  find(episodeId: string): Promise<Episode | null>;
}

/** An ended episode with its training rows. */
export type ExportedEpisode = { readonly episode: Episode; readonly result: EpisodeSamples };

/** Converts episodes of one group into rows in a trainer's layout. */
export type RowFormat = (
  ended: readonly ExportedEpisode[],
  groupIndex: number,
  /**
   * "ignore": rewards of turns are omitted, so that a format without a field for them does not
   * refuse.
   */
  options: { readonly turnRewards: "keep" | "ignore" },
) => readonly unknown[];

export type ServiceParts = {
  readonly environment: EnvironmentSource;
  readonly defaultSplit: string;
  /**
   * Runner of a policy. It is cheap for a policy that was used before. Throws a
   * `ConfigurationError` for an engine or a sampling that is not available.
   */
  readonly runner: (policy: PolicyRequest) => DispatchEpisode;
  /**
   * Compares the episodes of each group before they are stored. Default: each episode keeps the
   * reward of its own grade.
   */
  readonly rank?: RankGroup | null;
  /** Store of groups, which the caller opens and closes. */
  readonly store: GroupStore;
  /**
   * Disk of the store and of the request log: while it refuses writes, requests get 503. Default:
   * calls wait for the store.
   */
  readonly disk?: Disk;
  readonly archive: EpisodeArchive;
  readonly requests: RequestLog;
  /** Gate in front of every engine call of the runners. */
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
  /** The page of `/metrics`; `null` if there is none. */
  readonly metrics: { readonly contentType: string; page(): Promise<string> } | null;
  /** Receives the error of a group that could not be recorded; the next process tries again. */
  readonly onFault?: (error: unknown) => void;
  /**
   * Receives notices for people: the lease of a producer ran out, reported weights are not those of
   * the servers.
   */
  readonly onNotice?: (message: string) => void;
  /**
   * Called when the gate was closed or opened: resolves when engine calls of other processes obey
   * it. Default: there are none.
   */
  readonly onGate?: (isOpen: boolean) => Promise<void>;
  /**
   * Receives the version that a trainer reports, before producers do: when this resolves, its
   * engines know the version. Resolves with the versions that their servers report. `isAdapter`:
   * the version is an adapter, which `adapters` has loaded. Never rejects.
   */
  readonly onWeightVersion?: (
    version: string,
    options: { readonly isAdapter: boolean },
  ) => Promise<readonly (string | null)[]>;
  /** LoRA adapters on the servers of the policy. Default: there are none. */
  readonly adapters?: {
    /** Adapter that the engine was started with; `null` for the base. */
    readonly own: string | null;
    /**
     * Loads it on all servers, if its folder is given, and checks that they sample under it.
     * Rejects with a `ConfigurationError` or an `AttributedError`.
     */
    use(adapter: { readonly name: string; readonly path: string | null }): Promise<void>;
    unload(name: string): Promise<void>;
  };
  /**
   * Receives the difference between sampler and trainer that a trainer reports with its version;
   * `null` for a number that it did not report. Must not throw.
   */
  readonly onMismatch?: (report: {
    readonly version: string;
    readonly meanKl: number | null;
    readonly largestDifference: number | null;
  }) => void;
};

/** Limits of the service. Every one has a default. */
export type ServiceLimits = {
  /** Maximum number of concurrent episodes. Default 256. */
  readonly concurrency: number;
  /** Maximum number of waiting episodes; more are refused with 429. Default 4,096. */
  readonly maxWaiting: number;
  /**
   * Maximum size of a request's body, in bytes; larger ones are refused with 413. Default 1 MiB.
   */
  readonly maxBodyBytes: number;
  /** Maximum wait of a request, in milliseconds. Default 300,000. */
  readonly maxWaitMs: number;
  /**
   * Maximum number of episodes whose state stays in memory; those of older groups are read from the
   * archive. Default 100,000.
   */
  readonly maxRemembered: number;
};

export const defaultServiceLimits: ServiceLimits = Object.freeze({
  concurrency: 256,
  maxWaiting: 4096,
  maxBodyBytes: 2 ** 20,
  maxWaitMs: 300_000,
  maxRemembered: 100_000,
});
