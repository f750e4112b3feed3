// How a run plays one episode: a value, so that a run does not care which loop plays it.

import type { Episode, EpisodeEvent, EpisodeSamples, SamplingParams, Task } from "../core/index.ts";
import type { EpisodeOptions, EpisodeParts } from "./episode/episode-options.ts";
import { episodeSamples } from "./episode/episode-samples.ts";
import { type ChatEpisodeParts, runChatEpisode } from "./episode/run-chat-episode.ts";
import { runEpisode } from "./episode/run-episode.ts";

/** An ended episode and what it trains. */
export type FinishedEpisode = {
  readonly episode: Episode;
  readonly result: EpisodeSamples;
  /** "new": from its first event. "resumed": its first events came from a journal. "stored": it is in the store already. */
  readonly origin: "new" | "resumed" | "stored";
};

/** What a run decides about an episode; everything else is the player's. */
export type EpisodeRequest = {
  /** Unique in the run, and the same in every run of the plan. */
  readonly episodeId: string;
  /** The task's id; a task that is played again has further groups. */
  readonly groupId: string;
  /** Place in the group. */
  readonly sampleIndex: number;
  /** Of this episode. */
  readonly seed: number;
  readonly signal: AbortSignal;
  /** Told of what happens now; of what earlier processes recorded it is `onRecorded` that is told. */
  readonly onEvent: (event: EpisodeEvent) => void | Promise<void>;
  /** Told of every event of the episode that an earlier process recorded, before the episode goes on. Default: nobody is told. */
  readonly onRecorded?: (event: EpisodeEvent) => void;
  /** Of this episode alone. Absent: the player's. */
  readonly sampling?: SamplingParams;
  /** What earlier processes recorded of it; see `EpisodeOptions`. Absent: it begins. */
  readonly resumeFrom?: readonly EpisodeEvent[];
  /** Tells the engine calls of this process from those of earlier ones; see `EpisodeOptions`. Absent: there are none. */
  readonly requestTag?: string;
};

/** Resolves whatever happens in the episode; rejects for mistakes of configuration and for broken accounting alone. */
export type RunEpisode = (task: Task, place: EpisodeRequest) => Promise<FinishedEpisode>;

/** What only the place decides. */
type PlaceOption = Exclude<keyof EpisodeRequest, "sampling">;

/** Plays with `runEpisode`: token-exact, every token trained once. */
export function episodeRunner(parts: EpisodeParts, options: Omit<EpisodeOptions, PlaceOption> = {}): RunEpisode {
  return async (task, place) => {
    const episode = await runEpisode(task, parts, { ...options, ...place });
    return { episode, result: episodeSamples(episode), origin: "new" };
  };
}

/** Plays with `runChatEpisode`: an agent behind an API, evaluated and not trained. */
export function chatEpisodeRunner(
  parts: ChatEpisodeParts,
  options: Omit<EpisodeOptions, PlaceOption | "retry" | "turnTimeoutMs"> = {},
): RunEpisode {
  return async (task, place) => {
    const episode = await runChatEpisode(task, parts, { ...options, ...place });
    return { episode, result: episodeSamples(episode), origin: "new" };
  };
}
