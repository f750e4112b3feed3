import type { Episode } from "../../core/episode.ts";
import type { Task } from "../../core/task.ts";
import { deriveSeed } from "../../lib/random.ts";
import type { EpisodeOptions, EpisodeParts } from "./episode-options.ts";
import { runEpisode } from "./run-episode.ts";

/** The episodes of one task whose rewards are compared. */
export type Group = { readonly id: string; readonly task: Task; readonly episodes: readonly Episode[] };

/** The seed of the `sampleIndex`-th episode of a task in a run: the same in every process, whatever ran before. */
export function episodeSeed(runSeed: number, taskId: string, sampleIndex: number): number {
  return deriveSeed(runSeed, taskId, sampleIndex);
}

/** Plays `size` episodes of one task at once; `seed` is the run's. A failed episode never cancels its siblings. */
export async function runGroup(
  task: Task,
  parts: EpisodeParts,
  options: Omit<EpisodeOptions, "sampleIndex" | "episodeId"> & { readonly size: number },
): Promise<Group> {
  const { size, seed = 0, groupId = task.id, ...rest } = options;
  if (!Number.isInteger(size) || size < 1) {
    throw new RangeError(`Cannot run a group: size is ${size}, a whole number of at least 1 is needed.`);
  }
  const episodes = await Promise.all(
    Array.from({ length: size }, (_, sampleIndex) =>
      runEpisode(task, parts, { ...rest, groupId, sampleIndex, seed: episodeSeed(seed, task.id, sampleIndex) }),
    ),
  );
  return { id: groupId, task, episodes };
}
