// Door of the loop: one episode, one group, and what of an episode is trained.

export { openChecked, readTask } from "./checked-environment.ts";
export { chooseTask } from "./choose-task.ts";
export { defaultEngineAbort, type EngineAbortPolicy } from "./engine-abort.ts";
export {
  defaultEngineRetry,
  defaultLimits,
  defaultTimeouts,
  type EpisodeLimits,
  type EpisodeOptions,
  type EpisodeParts,
  type PhaseTimeouts,
} from "./episode-options.ts";
export { episodeSamples } from "./episode-samples.ts";
export { episodeUsage, type EpisodeUsage } from "./episode-usage.ts";
export { type ChatEpisodeParts, runChatEpisode } from "./run-chat-episode.ts";
export { runEpisode } from "./run-episode.ts";
export { episodeSeed, type Group, runGroup } from "./run-group.ts";
