// What the rollout service is made of, as values: it knows no engine, no environment and no exporter by name.

import type { EnvironmentSource, Episode, EpisodeSamples, SamplingParams } from "../core/index.ts";
import type { RunEpisode } from "../rollout/index.ts";
import type { RunStore } from "../store/run-store.ts";
import type { RequestLog } from "./request-log.ts";
import type { TurnGate } from "./turn-gate.ts";

/** Who plays the policy of a request, and how it is sampled. */
export type PolicyRequest = {
  /** `null`: the engine that the service was started with. */
  readonly engineUrl: string | null;
  /** What differs from the service's own sampling. */
  readonly sampling: Partial<SamplingParams>;
};

/** Episodes that have ended, by id, however long ago. */
export interface EpisodeArchive {
  /** `null` when there is none. */
  find(episodeId: string): Promise<Episode | null>;
}

/** An ended episode with what it trains. */
export type EndedEpisode = { readonly episode: Episode; readonly result: EpisodeSamples };

/** Rows of episodes of one group in a trainer's layout. */
export type RowFormat = (ended: readonly EndedEpisode[], groupIndex: number) => readonly unknown[];

export type ServiceParts = {
  readonly environment: EnvironmentSource;
  readonly defaultSplit: string;
  /** Cheap for a request like an earlier one. Throws a `ConfigurationError` for an engine or a sampling that cannot be had. */
  readonly player: (policy: PolicyRequest) => RunEpisode;
  /** Begun by the caller, and closed by it. */
  readonly store: Pick<RunStore, "append" | "appendGroup">;
  readonly archive: EpisodeArchive;
  readonly requests: RequestLog;
  /** Before every engine call of the players. */
  readonly gate: TurnGate;
  /** Whether groups come to the store with their rows, in the first format. Default: false, since rows are derived when they are fetched. */
  readonly writeSamples?: boolean;
  /** By name; the first is the default. */
  readonly formats: ReadonlyMap<string, RowFormat>;
  /** Of the service: seeds of episodes derive from it and the id of their group. */
  readonly seed: number;
  /** The page of `/metrics`; `null`: there is none. */
  readonly metrics: { readonly contentType: string; page(): Promise<string> } | null;
  /** Told why a group could not be recorded; the next process tries again. */
  readonly onFault?: (error: unknown) => void;
  /** Told of a producer that begins nothing more because its trainer was not heard. */
  readonly onLapse?: (message: string) => void;
  /** Told what the trainer says its weights are, before producers are: its engines know it when this resolves. Never rejects. */
  readonly onWeightVersion?: (version: string) => Promise<void>;
};

/** Bounds of the service. Every one has a default. */
export type ServiceLimits = {
  /** Episodes at once. Default 256. */
  readonly concurrency: number;
  /** Episodes that may wait; more are refused with 429. Default 4,096. */
  readonly maxWaiting: number;
  /** Bytes of a request's body; more are refused with 413. Default 1 MiB. */
  readonly maxBodyBytes: number;
  /** Longest that a request may ask to wait, in milliseconds. Default 300,000. */
  readonly maxWaitMs: number;
  /** Episodes whose status is answered from memory; those of older groups are read from the archive. Default 100,000. */
  readonly maxRemembered: number;
};

export const defaultServiceLimits: ServiceLimits = Object.freeze({
  concurrency: 256,
  maxWaiting: 4096,
  maxBodyBytes: 2 ** 20,
  maxWaitMs: 300_000,
  maxRemembered: 100_000,
});
