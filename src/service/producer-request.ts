// A requested producer, and what the library and the service derive from it: plan, options, and its groups as requests.

import { deriveSeed } from "../lib/random.ts";
import {
  createCurriculum,
  type GroupPolicy,
  type ProducerOptions,
  type ProducerPlan,
  tasksInOrder,
  type TaskSource,
} from "../rollout/index.ts";
import { findTaskset, type GroupRequest, type TaskOptions } from "./jobs.ts";
import type { PolicyRequest } from "./service-options.ts";

export type ProducerRequest = {
  readonly split: string | null;
  /** `null`: all tasks of the split. */
  readonly tasks: readonly number[] | null;
  /** Passes over the tasks; may be `Infinity`. */
  readonly passes: number;
  /** Weighs tasks by how often they are passed, instead of running them in order. */
  readonly curriculum: boolean;
  readonly groupSize: number;
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
  /** The training it belongs to: only reports that name it reach this producer. `null`: those without a name. */
  readonly training: string | null;
  /** Without a request of its trainer for so long, it begins nothing more until the next one. */
  readonly leaseMs: number;
};

/** Throws a `ServiceError` for a split or tasks that do not exist. */
export function planOf(request: ProducerRequest, producerId: string, options: TaskOptions): ProducerPlan {
  const taskset = findTaskset(request.split, request.tasks ?? [], options);
  const indexes = request.tasks ?? Array.from({ length: taskset.size }, (_, index) => index);
  const seed = request.seed ?? deriveSeed(options.seed, producerId);
  return {
    taskset,
    tasks: request.curriculum
      ? curriculumOf(indexes, { seed, passes: request.passes })
      : tasksInOrder(indexes, request),
    groupSize: request.groupSize,
    seed,
    batchGroups: request.batchGroups,
  };
}

/** As many groups as the tasks in order would give. */
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

/** Names task and visit, which a later process reads from it, in characters that a URL may hold. */
export function groupIdOf(producerId: string, taskIndex: number, visit: number): string {
  return `${producerId}-${taskIndex}-${visit}`;
}

/** One group of a producer, as a request of its own. */
export function groupRequestOf(request: ProducerRequest, groupId: string): GroupRequest {
  const { split, groupSize, seed, policy, groups } = request;
  const [taskIndex = 0, visit = 1] = groupId.split("-").slice(-2).map(Number);
  return { split, taskIndex, groupSize, seed, policy, visit, replacements: groups.replacements };
}
