// Runners of one episode, for schedulers: functions, so that a run does not depend on the loop that
// they call. There are three: with an engine, with an agent behind an API, and resumed from the
// journal of an earlier process.

import {
  ConfigurationError,
  type Counts,
  endingOf,
  type Episode,
  type EpisodeEvent,
  type EpisodeSamples,
  type EpisodeSummary,
  type EventCounts,
  type SamplingParams,
  type Task,
} from "../core/index.ts";
import { restoreGlobals } from "../lib/global-guard.ts";
import type { EpisodeJournal, RunStore } from "../store/index.ts";
import type { EpisodeOptions, EpisodeParts } from "./episode/episode-options.ts";
import { countOnes, episodeSamples } from "../trajectories/index.ts";
import { type ChatEpisodeParts, runChatEpisode, runEpisode } from "./episode/run-episode.ts";

/** A finished episode and its training rows. */
export type FinishedEpisode = {
  readonly episode: Episode;
  readonly result: EpisodeSamples;
  /** "new": from its first event. "resumed": its first events came from a journal. "stored": it is in the store already. */
  readonly origin: "new" | "resumed" | "stored";
};

/**
 * An episode that has ended, here or in another process: the facts by which a run decides, without
 * the episode itself.
 */
export type EndedEpisode = {
  readonly summary: EpisodeSummary;
  readonly origin: FinishedEpisode["origin"];
  /** Makes the episode count in the store of the run; `null` if it already does. */
  readonly store: ((store: Pick<RunStore, "append">) => Promise<void>) | null;
  /** Sums over its events; `null` if this process received the events themselves. */
  readonly counts: EventCounts | null;
  /** Reads the episode from where it is stored. */
  readonly open: () => Promise<FinishedEpisode>;
};

/**
 * Like {@link RunEpisode}, but the episode may run in another process. `null` if it did not run, so
 * that nothing about it is recorded.
 */
export type DispatchEpisode = (task: Task, request: EpisodeRequest) => Promise<FinishedEpisode | EndedEpisode | null>;

export function endedOf(finished: FinishedEpisode | EndedEpisode): EndedEpisode {
  if ("summary" in finished) return finished;
  const { episode, result, origin } = finished;
  const summary = summarizeEpisode(episode, result);
  const store: EndedEpisode["store"] = origin === "stored" ? null : (run) => run.append(episode);
  return { summary, origin, store, counts: null, open: async () => finished };
}

/** Summary of an episode. `result`: its training rows, if they count. */
export function summarizeEpisode(
  episode: Episode,
  { samples, dropped }: EpisodeSamples = { samples: [], dropped: [] },
): EpisodeSummary {
  const { id, groupId, sampleIndex, outcome, stopReason, failure, reward, grade } = episode;
  const { turns } = episode.trajectory;
  const spans = new Map<string, EpisodeSummary["weightSpans"][number]>();
  for (const { weightSpans } of turns) {
    for (const { dispatch, reply, tokenCount } of weightSpans) {
      if (tokenCount > 0) spans.set(JSON.stringify([dispatch, reply]), { dispatch, reply });
    }
  }
  return {
    id,
    groupId,
    sampleIndex,
    taskId: episode.task.id,
    outcome,
    stopReason,
    failure,
    reward,
    ending: endingOf(episode),
    metrics: { ...grade?.metrics },
    turns: turns.length + episode.events.filter(({ type }) => type === "agent-reply").length,
    sampledTokens: turns.reduce((sum, { sampledTokens }) => sum + sampledTokens.length, 0),
    weightSpans: [...spans.values()],
    problems: countBy(episode.problems, ({ code }) => [code, 1]),
    samples: samples.length,
    trainedTokens: samples.reduce((sum, { lossMask }) => sum + countOnes(lossMask), 0),
    dropped: countBy(dropped, ({ reason, count }) => [reason, count]),
  };
}

function countBy<T>(items: readonly T[], entryOf: (item: T) => readonly [name: string, count: number]): Counts {
  // Without a prototype: names may come from foreign code.
  const counts = Object.create(null) as Record<string, number>;
  for (const item of items) {
    const [name, count] = entryOf(item);
    counts[name] = (counts[name] ?? 0) + count;
  }
  return counts;
}

/**
 * Number of engine calls that ended, and how many of them a server refused as overloaded or timed
 * out.
 */
export type ObservedCalls = { readonly calls: number; readonly sampledTokens: number; readonly overloads: number };

/** Options that a run decides for each episode; everything else is up to its runner. */
export type EpisodeRequest = Required<
  Pick<EpisodeOptions, "episodeId" | "groupId" | "sampleIndex" | "seed" | "signal" | "onEvent">
> &
  Pick<EpisodeOptions, "resumeFrom" | "requestTag" | "failure"> & {
    /** Sampling of this episode only. Default: the runner's. */
    readonly sampling?: SamplingParams;
    /** Engine of this episode only, where a queue carries it to its worker, and adapter of its group. Default: the runner's. */
    readonly engineUrl?: string | null;
    readonly adapter?: string;
    /** Receives calls that the workers of a queue observed since their last report. */
    readonly onObserved?: (observed: ObservedCalls) => void;
    /** Receives every event of the episode that an earlier process recorded, before the episode continues. Default: ignored. */
    readonly onRecorded?: (event: EpisodeEvent) => void;
  };

/**
 * Resolves for every outcome of the episode; rejects only for mistakes of configuration and for
 * broken accounting.
 */
export type RunEpisode = (task: Task, request: EpisodeRequest) => Promise<FinishedEpisode>;

/** Options that only a request decides. */
type RequestOption = Exclude<keyof EpisodeRequest, "sampling" | "engineUrl" | "adapter" | "onObserved">;

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
 * Resumes episodes of an earlier process: a finished episode is returned at once, one in flight
 * replays its recorded events and continues live, and every new event is recorded before it counts.
 * Rejects with a `ConfigurationError` when a finished episode belongs to another task, because then
 * it is a different run.
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
    // A recorded restart is skipped, because the events that it dropped are still recorded.
    if (onRecorded !== undefined) recorded.filter(({ type }) => type !== "restart").forEach(onRecorded);
    const record = async (event: EpisodeEvent): Promise<void> => {
      // Graders, users and agents are third-party code as well.
      restoreGlobals();
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
    `Cannot resume episode "${episodeId}": the content of task "${before.id}" has changed (${before.contentHash.slice(0, 12)}, ` +
      `now ${now.contentHash.slice(0, 12)}); use the data and the package that the run began with, or start a new run.`,
  );
}
