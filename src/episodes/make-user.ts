import { ConfigurationError } from "../core/failure.ts";
import type { Task } from "../core/task.ts";
import type { UserSimulator, UserSource } from "../core/user.ts";
import { deriveSeed } from "../lib/random.ts";
import type { ResolvedOptions } from "./episode-options.ts";
import { spokenLines } from "./recorded-events.ts";

/** The user of an episode, where the conversation stands. Throws a `ConfigurationError` when the source cannot make it. */
export function makeUser(source: UserSource, task: Task, options: ResolvedOptions): UserSimulator {
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
