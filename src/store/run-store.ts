// Contracts of what keeps a run: one that is written while it happens, one that is read afterwards. Not a journal: an
// episode arrives whole, when it has ended.

import type { Episode, GroupRecord } from "../core/index.ts";
import type { JsonObject } from "../python-semantics/json/value.ts";

/** What is decided about a group, and what it trains. */
export type DecidedGroup = {
  readonly group: GroupRecord;
  /**
   * One JSON text a row, without line ends; the layout is the exporter's. Empty when the group trains nothing, and in runs
   * that keep no rows beside their episodes.
   */
  readonly sampleLines: readonly string[];
};

/**
 * Keeps one run. Used once: `begin`, any number of `append` and `appendGroup`, `close`.
 *
 * Guarantees: records are kept in the order of the calls; a call resolves once its record has left the process, the rows of
 * a group before the group, so that whoever finds a group finds all its rows; after a fault every later call rejects with
 * that fault, and what was kept before stays readable. Calls may overlap. Every rejection is attributed to boundary "store",
 * except for `begin` at a place that is taken, which is a `ConfigurationError`.
 * Not promised: that a record survives a power cut before `close`; order between records whose calls overlap is that of the calls.
 */
export interface RunStore {
  /** Where people find it. */
  readonly location: string;
  /** Takes the place and writes the manifest: what the run is, in words that a reader shows. */
  begin(manifest: JsonObject): Promise<void>;
  /** An episode that has ended. */
  append(episode: Episode): Promise<void>;
  /** A group that is decided, after its episodes. */
  appendGroup(decided: DecidedGroup): Promise<void>;
  /** Waits for all appends, replaces the manifest by the final one and gives everything back. A second call does nothing. */
  close(manifest: JsonObject): Promise<void>;
}

/** A kept run, finished or not. */
export interface RunReader {
  readonly location: string;
  manifest(): Promise<JsonObject>;
  /** In the order they were kept. Throws at a record that cannot be read, naming it; a torn last one is left out. */
  episodes(): AsyncIterable<Episode>;
  /** In the order they were decided; otherwise as `episodes`. */
  groups(): AsyncIterable<GroupRecord>;
  /** Rows as JSON texts, in the order they were kept; none when the run kept none. */
  sampleLines(): AsyncIterable<string>;
}

/** The end of a file that was being written when its process died. */
export type TornLine = { readonly file: string; readonly bytes: number };
