import { ConfigurationError, type Taskset } from "../../core/index.ts";
import { createRandom, deriveSeed } from "../../lib/random.ts";
import type { CliContext } from "../cli-context.ts";
import { loadEnvironment } from "../../api/load-environment.ts";
import type { EvalSettings } from "../../api/eval-settings.ts";
import type { RolloutSettings } from "../../api/rollout-settings.ts";
import { readTaskList } from "../../api/task-list.ts";

/**
 * The settings with the tasks that are meant, in the order they are to be played: by index or id, shuffled by the seed of the
 * run. Throws a `ConfigurationError` for a task that is not there.
 */
export async function orderTasks(
  settings: RolloutSettings,
  { taskIds, shuffle }: Pick<EvalSettings, "taskIds" | "shuffle">,
  { cwd }: Pick<CliContext, "cwd">,
): Promise<RolloutSettings> {
  if (taskIds === null && !shuffle) return settings;
  const { source, defaultSplit, defaultTasks } = await loadEnvironment(settings.env, { data: settings.data, cwd });
  const split = settings.split ?? defaultSplit;
  // An unknown split is refused where every rollout's is.
  if (!source.splits.includes(split)) return settings;
  const taskset = source.taskset(split);
  const indexes =
    taskIds === null
      ? readTaskList(settings.tasks ?? defaultTasks, taskset)
      : [...new Set(taskIds.map((id) => indexOf(id, taskset)))];
  const ordered = shuffle ? createRandom(deriveSeed(settings.seed, "task order")).shuffle(indexes) : indexes;
  return { ...settings, tasks: ordered.join(",") };
}

function indexOf(id: string, taskset: Taskset): number {
  const { environment, split, size } = taskset;
  // Ids end in the index; asking each of thousands of tasks for its id would make them all.
  const index = Number(/^\d+$/.test(id) ? id : (/(\d+)$/.exec(id)?.[1] ?? NaN));
  if (Number.isInteger(index) && index < size && (/^\d+$/.test(id) || taskset.task(index).id === id)) return index;
  throw new ConfigurationError(
    `Cannot find task "${id}" in ${environment} (${split}): it has tasks 0 to ${size - 1}, and ids like "${taskset.task(0).id}"; correct --task-ids.`,
  );
}
