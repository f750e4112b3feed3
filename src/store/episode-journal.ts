// What a run knows of its episodes beyond the process that plays them, as a contract. Events of an episode are kept as they
// happen; an ended episode is kept whole by the store, and its events are forgotten.

import type { Episode, EpisodeEvent } from "../core/index.ts";

/**
 * Guarantees: the events of an episode come back in the order of the calls, none missing in between; what a killed process
 * recorded last may be gone. Safe to call for many episodes at once; for one episode, calls arrive one at a time.
 * Every rejection is attributed to boundary "store".
 */
export interface EpisodeJournal {
  /** Resolves once the event has left the process, and is on the disk where the journal was asked to force it there. */
  record(episodeId: string, event: EpisodeEvent): Promise<void>;
  /** An episode that has ended; `null` when it has not, or never began. */
  kept(episodeId: string): Promise<Episode | null>;
  /** What is recorded of an episode that has not ended, by all processes so far; empty when nothing is. */
  recorded(episodeId: string): Promise<readonly EpisodeEvent[]>;
}
