// A player that goes on where an earlier process stopped. Nobody above notices: an episode that has ended comes back at once,
// one that was under way walks its recorded events and goes on live, and every new event is recorded before it counts.

import { ConfigurationError, type EpisodeEvent, type Task } from "../core/index.ts";
import { episodeSamples } from "./episode/episode-samples.ts";
import type { EpisodeJournal } from "../store/index.ts";
import type { RunEpisode, FinishedEpisode } from "./episode-player.ts";

/**
 * `onRecorded` of a place is told of recorded events, `onEvent` of new ones alone. Rejects with a `ConfigurationError` when an
 * episode that has ended was of another task: then the run is another one.
 */
export function resumableRunner(runEpisode: RunEpisode, journal: EpisodeJournal): RunEpisode {
  // The server may still be at work on the last call of a process that died, and takes no second one of the same id.
  const requestTag = globalThis.crypto.randomUUID().slice(0, 8);
  return async (task, place) => {
    const { episodeId, onEvent, onRecorded } = place;
    const kept = await journal.kept(episodeId);
    if (kept !== null) {
      checkTask(episodeId, kept.task, task);
      if (onRecorded !== undefined) kept.events.forEach(onRecorded);
      return { episode: kept, result: episodeSamples(kept), origin: "stored" };
    }
    const recorded = await journal.recorded(episodeId);
    if (onRecorded !== undefined) recorded.forEach(onRecorded);
    const record = async (event: EpisodeEvent): Promise<void> => {
      await journal.record(episodeId, event);
      await onEvent(event);
    };
    if (recorded.length === 0) return runEpisode(task, { ...place, onEvent: record });
    const played = await runEpisode(task, { ...place, onEvent: record, resumeFrom: recorded, requestTag });
    return { ...played, origin: "resumed" } satisfies FinishedEpisode;
  };
}

function checkTask(episodeId: string, before: Task, now: Task): void {
  if (before.id === now.id && before.contentHash === now.contentHash) return;
  throw new ConfigurationError(
    `Cannot go on with episode "${episodeId}": it was played on task "${before.id}" with other content (${before.contentHash.slice(0, 12)}, ` +
      `now ${now.contentHash.slice(0, 12)}); use the data and the package that the run began with, or begin a new run.`,
  );
}
