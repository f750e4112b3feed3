// The contracts of a stored run: written while it runs, with a journal of the episodes in flight,
// and read afterwards.

import {
  type Episode,
  type GroupRecord,
  type EpisodeEvent,
  attribute,
  AttributedError,
  faultAt,
} from "../core/index.ts";
import { remedyOf, systemCode } from "../lib/system-error.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";

/** The layout of run folders, `format` in run.json. */
export const runFormat = 4;

/** The files of a run folder; see docs/start.md. */
export const runFiles = Object.freeze({
  manifest: "run.json",
  episodes: "episodes.jsonl",
  /** A line for each episode that counts; see `EpisodeSummary`. */
  index: "index.jsonl",
  groups: "groups.jsonl",
  samples: "samples.jsonl",
  /** Present in runs that keep the experts of a mixture-of-experts model. */
  routedExperts: "routed-experts.bin",
  /** Present in runs that keep the ids from which each token was sampled. */
  samplingMasks: "sampling-masks.bin",
  /** Present in runs that a teacher has scored. */
  teacherScores: "teacher-scores.jsonl",
  /** A folder, present where several processes write episodes, with one folder for each. */
  shards: "shards",
  /** A folder, present while episodes are in flight. */
  journal: "journal",
  /** Present while a process writes. */
  lock: "run.lock",
});

/** The decision about a group, and its training rows. */
export type DecidedGroup = {
  readonly group: GroupRecord;
  /**
   * One JSON text per row, without line ends, in the exporter's layout. Empty when the group trains
   * nothing, and in runs that store no rows beside their episodes.
   */
  readonly sampleLines: readonly string[];
};

/**
 * Keeps one run. Used once: `begin`, any number of `append` and `appendGroup`, `close`.
 *
 * Guarantees: records are stored in the order of the calls; a call resolves once its record has
 * left the process, the rows of a group before the group, so that a reader that finds a group finds
 * all its rows; a call that its disk refuses waits as long as the store's patience allows (see
 * `Disk`); after a fault every later call rejects with that fault, and earlier records stay
 * readable. Calls may overlap. Every rejection is attributed to boundary "store", except for
 * `begin` at an occupied place, which is a `ConfigurationError`.
 *
 * Not promised: that a record survives a power cut before `close`; records of overlapping calls are
 * stored in the order of the calls.
 */
export interface RunStore {
  /** Name of the place in messages. */
  readonly location: string;
  /** Locks the place and writes the manifest, which describes the run. */
  begin(manifest: JsonObject): Promise<void>;
  /** Stores an episode that has ended. */
  append(episode: Episode): Promise<void>;
  /** Stores a decided group, after its episodes. */
  appendGroup(decided: DecidedGroup): Promise<void>;
  /**
   * Waits for all appends, replaces the manifest with the final one and releases everything. A
   * second call has no effect.
   */
  close(manifest: JsonObject): Promise<void>;
}

/** A stored run, finished or not. */
export interface RunReader {
  readonly location: string;
  manifest(): Promise<JsonObject>;
  /**
   * Episodes in the order they were stored. Throws at a record that cannot be read, naming it; a
   * torn last one is omitted.
   */
  episodes(): AsyncIterable<Episode>;
  /** Groups in the order they were decided; errors and torn lines as in `episodes`. */
  groups(): AsyncIterable<GroupRecord>;
  /** Rows in JSON, in the order they were stored; none when the run has none. */
  sampleLines(): AsyncIterable<string>;
}

/** The end of an unfinished line of a process that died. */
export type TornLine = { readonly file: string; readonly bytes: number };

/**
 * The events of an episode are recorded as they happen; an ended episode is stored whole, and its
 * events are removed.
 *
 * Guarantees: the events of an episode come back in the order of the calls, without gaps; the last
 * records of a killed process may be lost. Safe to call for many episodes at once; for one episode,
 * calls arrive one at a time. Every rejection is attributed to boundary "store".
 */
export interface EpisodeJournal {
  /** Resolves once the event has left the process, and is on the disk where the journal forces it there. */
  record(episodeId: string, event: EpisodeEvent): Promise<void>;
  /** The episode if it has ended; `null` when it has not, or never began. */
  kept(episodeId: string): Promise<Episode | null>;
  /**
   * Events that all processes so far recorded of an episode that has not ended; empty when none are
   * recorded.
   */
  recorded(episodeId: string): Promise<readonly EpisodeEvent[]>;
}

/** A fault of the store, attributed; its message has the remedy, where one is known. */
export function storeFault(task: string, location: string, error: unknown): AttributedError {
  const { failure } = attribute(error, "store", systemCode(error) ?? "unexpected");
  const remedy = remedyOf(error);
  const message = `Cannot ${task} in "${location}": ${failure.message}${remedy === null ? "" : `; ${remedy}`}.`;
  return new AttributedError({ ...failure, message }, { cause: error });
}

export function unbegunStore(location: string): Error {
  return new Error(`Cannot use the run store at "${location}": it has not begun; call begin first.`);
}

export function closedStore(location: string): Error {
  return faultAt("store", "closed", `Cannot append to the run store at "${location}": it is closed.`);
}
