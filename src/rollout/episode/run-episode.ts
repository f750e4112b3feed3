// One episode with an engine: token-exact, trainable.

import type { Episode } from "../../core/episode.ts";
import type { Task } from "../../core/task.ts";
import { EngineActions } from "./engine-actions.ts";
import { type EpisodeOptions, type EpisodeParts, resolveOptions } from "./episode-options.ts";
import { EpisodeRun } from "./episode-run.ts";
import { makeUser } from "./make-user.ts";

/**
 * Plays one episode of `task`. Resolves with an `Episode` whatever happens in it; throws a `RangeError` for options out of
 * bounds and a `ConfigurationError` when the user simulator cannot play the task, both before any side effect.
 */
export async function runEpisode(task: Task, parts: EpisodeParts, options: EpisodeOptions = {}): Promise<Episode> {
  const resolved = resolveOptions(task.id, options);
  const { environment, strategy } = parts;
  const user = makeUser(parts.user, task, resolved);
  const actions = new EngineActions(parts, resolved);
  return new EpisodeRun(task, { environment, strategy, user, actions }, resolved).play();
}
