// A producer as it was asked for, and the groups that come of it.

import { deriveSeed } from "../lib/random.ts";
import {
  createCurriculum,
  type GroupPolicy,
  type ProducerOptions,
  type ProducerPlan,
  tasksInOrder,
  type TaskSource,
} from "../rollout/index.ts";
import type { GroupRequest } from "./group-job.ts";
import { checkTasks, findSplit, type TaskWorld } from "./open-group.ts";
import type { PolicyRequest } from "./service-parts.ts";

export type ProducerRequest = {
  readonly split: string | null;
  /** `null`: all tasks of the split. */
  readonly tasks: readonly number[] | null;
  /** How often the tasks are gone through; may be `Infinity`. */
  readonly passes: number;
  /** Weighs tasks by how often they are passed, instead of going through them in order. */
  readonly curriculum: boolean;
  readonly samples: number;
  readonly batchGroups: number;
  /** `null`: derived from the service's seed and the producer's id. */
  readonly seed: number | null;
  readonly policy: PolicyRequest;
  readonly maxStaleness: number;
  readonly stale: "drop" | "requeue";
  /** `null`: the library's default. */
  readonly bufferGroups: number | null;
  readonly groups: GroupPolicy;
  /** What the engine has at the beginning; `null`: what the trainer reported last. */
  readonly weightVersion: string | null;
  /** Whose it is: only reports with the same name reach it. `null`: nobody's in particular; reports without a name do. */
  readonly training: string | null;
  /** It begins nothing more when its trainer was not heard for so long. */
  readonly leaseMs: number;
};

/** What the library makes a producer of. Throws a `ServiceRefusal` for tasks that there are not. */
export function planOf(request: ProducerRequest, producerId: string, world: TaskWorld): ProducerPlan {
  const taskset = world.environment.taskset(findSplit(request.split, world));
  checkTasks(request.tasks ?? [], taskset, world.environment);
  const indexes = request.tasks ?? Array.from({ length: taskset.size }, (_, index) => index);
  const seed = request.seed ?? deriveSeed(world.seed, producerId);
  return {
    taskset,
    tasks: request.curriculum
      ? curriculumOf(indexes, { seed, passes: request.passes })
      : tasksInOrder(indexes, request),
    groupSize: request.samples,
    seed,
    batchGroups: request.batchGroups,
  };
}

/** As many groups as going through the tasks in order would give. */
function curriculumOf(
  taskIndexes: readonly number[],
  { seed, passes }: { readonly seed: number; readonly passes: number },
): TaskSource {
  const source = createCurriculum({ taskIndexes, seed });
  const groups = taskIndexes.length * passes;
  return { ...source, next: (groupIndex) => (groupIndex < groups ? source.next(groupIndex) : null) };
}

export function optionsOf(request: ProducerRequest): ProducerOptions {
  const { maxStaleness, stale, bufferGroups, groups } = request;
  return { maxStaleness, stale, groups, ...(bufferGroups === null ? {} : { bufferGroups }) };
}

/** Says all that a later process must know of it, in characters that a URL may hold. */
export function groupIdOf(producerId: string, taskIndex: number, visit: number): string {
  return `${producerId}-${taskIndex}-${visit}`;
}

/** One group of a producer, as if it had been asked for alone. */
export function groupRequestOf(request: ProducerRequest, groupId: string): GroupRequest {
  const { split, samples, seed, policy, groups } = request;
  const [taskIndex = 0, visit = 1] = groupId.split("-").slice(-2).map(Number);
  return { split, taskIndex, samples, seed, policy, visit, replacements: groups.replacements };
}
