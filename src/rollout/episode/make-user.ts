// The user of an episode, new or in the middle of its conversation.

import type { Task } from "../../core/environment.ts";
import { attribute, ConfigurationError } from "../../core/failure.ts";
import type { UserSimulator, UserSource } from "../../core/user.ts";
import { deriveSeed } from "../../lib/random.ts";
import type { ResolvedOptions } from "./episode-options.ts";
import { spokenLines } from "./recorded-events.ts";

/**
 * The user of an episode at the current point of its conversation. Throws a `ConfigurationError`
 * when the source cannot make it; any other error of the source is a failure of the episode, at its
 * first line.
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
  const last = spoken.at(-1)?.line.type;
  // After a hang-up no further line is requested.
  if (last === undefined || last === "hang-up") return source.create(task, { seed });
  if (source.resume !== undefined) return source.resume(task, { seed, lines: spoken });
  throw new ConfigurationError(
    `Cannot resume episode "${options.episodeId}" after ${spoken.length} lines of user "${source.name}": it cannot resume ` +
      "a conversation; add a resume method (see UserSource), or run the task again.",
  );
}
