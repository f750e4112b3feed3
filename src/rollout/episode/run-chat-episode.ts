// One episode with an agent behind an API: for evaluation. The same loop as `runEpisode`, and nothing to train in the end.

import type { ChatAgent } from "../../core/chat-agent.ts";
import type { Episode } from "../../core/episode.ts";
import type { Task } from "../../core/task.ts";
import { ChatActions } from "./chat-actions.ts";
import { type EpisodeOptions, type EpisodeParts, resolveOptions } from "./episode-options.ts";
import { EpisodeRun } from "./episode-run.ts";
import { makeUser } from "./make-user.ts";

/** As {@link EpisodeParts}, with an agent in place of engine and renderer. */
export type ChatEpisodeParts = Omit<EpisodeParts, "engine" | "renderer"> & { readonly agent: ChatAgent };

/**
 * Plays one episode of `task`. The agent's own settings say how it samples, how often it is asked again and how long a call
 * may take; of `sampling` the seed counts, and `maxSampledTokens` bounds the tokens that its provider reports. Otherwise as
 * `runEpisode`. The episode says "no-tokens" and has no samples.
 */
export async function runChatEpisode(
  task: Task,
  parts: ChatEpisodeParts,
  options: Omit<EpisodeOptions, "retry" | "turnTimeoutMs"> = {},
): Promise<Episode> {
  const resolved = resolveOptions(task.id, options);
  const { environment, strategy } = parts;
  const user = makeUser(parts.user, task, resolved);
  const actions = new ChatActions(parts.agent, resolved);
  return new EpisodeRun(task, { environment, strategy, user, actions }, resolved).play();
}
