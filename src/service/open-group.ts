// From what is asked for to episodes with places and seeds. The same question gives the same episodes in every process.

import type { EnvironmentSource, Task, Taskset } from "../core/index.ts";
import { episodeSeed } from "../rollout/index.ts";
import { EpisodeJob } from "./episode-job.ts";
import type { GroupIdentity, GroupJob, GroupRequest } from "./group-job.ts";
import { ServiceRefusal } from "./service-refusal.ts";

export type TaskWorld = {
  readonly environment: EnvironmentSource;
  readonly defaultSplit: string;
  /** Of the service. */
  readonly seed: number;
};

/** Episodes that wait. Throws a `ServiceRefusal` for a task that there is not. */
export function openGroup(request: GroupRequest, identity: GroupIdentity, world: TaskWorld): GroupJob {
  const { groupId, groupIndex, bodyHash, producerId } = identity;
  const task = findTask(request, world);
  const job = (sampleIndex: number): EpisodeJob => {
    const { seed, visit } = request;
    // The task's id is in it, so that equal seeds and keys never couple different tasks.
    const own = seed === null ? groupId : visit === 1 ? "" : `@${visit}`;
    return new EpisodeJob({
      episodeId: `${groupId}.${sampleIndex}`,
      groupId,
      sampleIndex,
      task,
      seed: episodeSeed(seed ?? world.seed, `${task.id}/${own}`, sampleIndex),
    });
  };
  const jobs = Array.from({ length: request.samples }, (_, sampleIndex) => job(sampleIndex));
  return { groupId, groupIndex, bodyHash, producerId, request, jobs, another: job };
}

function findTask({ split, taskIndex }: GroupRequest, world: TaskWorld): Task {
  const { environment } = world;
  const name = findSplit(split, world);
  const taskset = environment.taskset(name);
  checkTasks([taskIndex], taskset, environment);
  return taskset.task(taskIndex);
}

/** Throws a `ServiceRefusal` that names the first index of which there is no task. */
export function checkTasks(taskIndexes: readonly number[], taskset: Taskset, { name }: EnvironmentSource): void {
  const wrong = taskIndexes.find((index) => index >= taskset.size);
  if (wrong === undefined) return;
  throw new ServiceRefusal(
    "bad-request",
    `Cannot find the task: ${name} (${taskset.split}) has no task ${wrong}; indexes go from 0 to ${taskset.size - 1}.`,
  );
}

/** The name of a split that there is; `null` stands for the service's own. Throws a `ServiceRefusal`. */
export function findSplit(split: string | null, { environment, defaultSplit }: TaskWorld): string {
  const name = split ?? defaultSplit;
  if (environment.splits.includes(name)) return name;
  throw new ServiceRefusal(
    "bad-request",
    `Cannot find the task: ${environment.name} has no split "${name}"; it has ${environment.splits.join(", ")}.`,
  );
}
