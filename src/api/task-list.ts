// Task indexes as people write them: `0-49,60`, or "all".

import { ConfigurationError } from "../core/index.ts";

const item = /^(\d+)(?:-(\d+))?$/;

/** True for a list that {@link readTaskList} can read. */
export function isTaskList(list: string): boolean {
  if (list.trim() === "all") return true;
  return list.split(",").every((part) => {
    const [, first, last] = item.exec(part.trim()) ?? [];
    return first !== undefined && (last === undefined || Number(first) <= Number(last));
  });
}

/**
 * The indexes of a list, in its order, each once. Throws a `ConfigurationError` for an index that the split does not have;
 * "all" is every index.
 */
export function readTaskList(
  list: string,
  taskset: { readonly environment: string; readonly split: string; readonly size: number },
): number[] {
  const { environment, split, size } = taskset;
  if (list.trim() === "all") return Array.from({ length: size }, (_, index) => index);
  const indexes = new Set<number>();
  for (const part of list.split(",")) {
    const [, first = "", last = first] = item.exec(part.trim()) ?? [];
    if (Number(last) >= size) {
      throw new ConfigurationError(
        `Cannot play task ${last}: ${environment} has ${size} tasks in split "${split}", 0 to ${size - 1}; correct --tasks.`,
      );
    }
    for (let index = Number(first); index <= Number(last); index++) indexes.add(index);
  }
  return [...indexes];
}
