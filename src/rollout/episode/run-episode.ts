// One episode with an engine: token-exact, trainable.

import type { ChatAgent } from "../../core/agent.ts";
import type { Episode } from "../../core/episode.ts";
import { attribute, ConfigurationError } from "../../core/failure.ts";
import type { Task } from "../../core/environment.ts";
import type { UserSimulator, UserSource } from "../../core/user.ts";
import { deriveSeed } from "../../lib/random.ts";
import { ChatActions } from "./chat-actions.ts";
import { EngineActions } from "./engine-actions.ts";
import { type EpisodeOptions, type EpisodeParts, resolveOptions, type ResolvedOptions } from "./episode-options.ts";
import { EpisodeRun } from "./episode-run.ts";
import { spokenLines } from "./recorded-events.ts";

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

/**
 * The user of an episode, where the conversation stands. Throws a `ConfigurationError` when the source cannot make it; whatever
 * else it throws is a failure of the episode, at its first line.
 */
export function makeUser(source: UserSource, task: Task, options: ResolvedOptions): UserSimulator {
  try {
    return createUser(source, task, options);
  } catch (error) {
    if (error instanceof ConfigurationError) throw error;
    const fail = (): Promise<never> => Promise.reject(attribute(error, "user"));
    return { open: fail, reply: fail };
  }
}

function createUser(source: UserSource, task: Task, options: ResolvedOptions): UserSimulator {
  const seed = deriveSeed(options.seed, "user");
  const spoken = spokenLines(options.resumeFrom);
  // After a hang-up nobody asks.
  if (spoken.at(-1)?.line.type !== "words") return source.create(task, { seed });
  if (source.resume !== undefined) return source.resume(task, { seed, spoken });
  throw new ConfigurationError(
    `Cannot go on with episode "${options.episodeId}" after ${spoken.length} lines of user "${source.name}": it cannot take up ` +
      "a conversation; give it a resume method (see UserSource), or play the task anew.",
  );
}

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
