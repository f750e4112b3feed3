// One episode as schedulers run it: a function, so that a run does not depend on the loop behind it. And the three such functions
// that there are: with an engine, with an agent behind an API, and resumed from the journal of an earlier process.

import {
  ConfigurationError,
  type Episode,
  type EpisodeEvent,
  type EpisodeSamples,
  type SamplingParams,
  type Task,
} from "../core/index.ts";
import type { EpisodeJournal } from "../store/index.ts";
import type { EpisodeOptions, EpisodeParts } from "./episode/episode-options.ts";
import { episodeSamples } from "../trajectories/index.ts";
import { type ChatEpisodeParts, runChatEpisode, runEpisode } from "./episode/run-episode.ts";

/** A finished episode and its training rows. */
export type FinishedEpisode = {
  readonly episode: Episode;
  readonly result: EpisodeSamples;
  /** "new": from its first event. "resumed": its first events came from a journal. "stored": it is in the store already. */
  readonly origin: "new" | "resumed" | "stored";
};

/** What a run decides about an episode, as its options; everything else is up to its runner. */
export type EpisodeRequest = Required<
  Pick<EpisodeOptions, "episodeId" | "groupId" | "sampleIndex" | "seed" | "signal" | "onEvent">
> &
  Pick<EpisodeOptions, "resumeFrom" | "requestTag"> & {
    /** Of this episode alone. Default: the runner's. */
    readonly sampling?: SamplingParams;
    /** Receives every event of the episode that an earlier process recorded, before the episode continues. Default: ignored. */
    readonly onRecorded?: (event: EpisodeEvent) => void;
  };

/** Resolves whatever happens in the episode; rejects for mistakes of configuration and for broken accounting alone. */
export type RunEpisode = (task: Task, request: EpisodeRequest) => Promise<FinishedEpisode>;

/** Options that only a request decides. */
type RequestOption = Exclude<keyof EpisodeRequest, "sampling">;

/** Runs `runEpisode`: token-exact, every token trained once. */
export function episodeRunner(parts: EpisodeParts, options: Omit<EpisodeOptions, RequestOption> = {}): RunEpisode {
  return async (task, request) => {
    const episode = await runEpisode(task, parts, { ...options, ...request });
    return { episode, result: episodeSamples(episode), origin: "new" };
  };
}

/** Runs `runChatEpisode`: an agent behind an API, evaluated and not trained. */
export function chatEpisodeRunner(
  parts: ChatEpisodeParts,
  options: Omit<EpisodeOptions, RequestOption | "retry" | "turnTimeoutMs"> = {},
): RunEpisode {
  return async (task, request) => {
    const episode = await runChatEpisode(task, parts, { ...options, ...request });
    return { episode, result: episodeSamples(episode), origin: "new" };
  };
}

/**
 * Resumes where an earlier process stopped: a finished episode comes back at once, one in flight walks its recorded events and
 * continues live, and every new event is recorded before it counts. Rejects with a `ConfigurationError` when a finished
 * episode was of another task: then the run is another one.
 */
export function resumableRunner(run: RunEpisode, journal: EpisodeJournal): RunEpisode {
  // The server may still execute the last call of a process that died, and refuses a second one of the same id.
  const requestTag = globalThis.crypto.randomUUID().slice(0, 8);
  return async (task, request) => {
    const { episodeId, onEvent, onRecorded } = request;
    const stored = await journal.kept(episodeId);
    if (stored !== null) {
      checkTask(episodeId, stored.task, task);
      if (onRecorded !== undefined) stored.events.forEach(onRecorded);
      return { episode: stored, result: episodeSamples(stored), origin: "stored" };
    }
    const recorded = await journal.recorded(episodeId);
    // What an earlier restart left out is still there.
    if (onRecorded !== undefined) recorded.filter(({ type }) => type !== "restart").forEach(onRecorded);
    const record = async (event: EpisodeEvent): Promise<void> => {
      await journal.record(episodeId, event);
      await onEvent(event);
    };
    if (recorded.length === 0) return run(task, { ...request, onEvent: record });
    const finished = await run(task, { ...request, onEvent: record, resumeFrom: recorded, requestTag });
    return { ...finished, origin: "resumed" } satisfies FinishedEpisode;
  };
}

function checkTask(episodeId: string, before: Task, now: Task): void {
  if (before.id === now.id && before.contentHash === now.contentHash) return;
  throw new ConfigurationError(
    `Cannot resume episode "${episodeId}": it ran on task "${before.id}" with other content (${before.contentHash.slice(0, 12)}, ` +
      `now ${now.contentHash.slice(0, 12)}); use the data and the package that the run began with, or begin a new run.`,
  );
}
