// Tasks by split and number, with the errors that every environment gives for missing ones.

import type { Task, Taskset } from "./environment.ts";
import { ConfigurationError } from "./failure.ts";

/**
 * A taskset of an environment whose splits have these sizes; `task` is only called for an index within them. Throws a
 * `ConfigurationError` for a split that is not among them.
 */
export function createTaskset(
  environment: string,
  split: string,
  options: {
    readonly sizes: Readonly<Record<string, number>>;
    /** Hashes of whole splits, where they are known. @default none */
    readonly hashes?: Readonly<Record<string, string>>;
    readonly task: (index: number) => Task;
  },
): Taskset {
  const { sizes, hashes = {}, task } = options;
  const size = Object.hasOwn(sizes, split) ? sizes[split] : undefined;
  if (size === undefined) {
    const splits = Object.keys(sizes).map((known) => `"${known}"`);
    const listed = [splits.slice(0, -1).join(", "), splits.at(-1)].filter((part) => part !== "").join(" and ");
    throw new ConfigurationError(
      `Cannot open split "${split}" of environment "${environment}": expected one of ${listed}.`,
    );
  }
  return {
    environment,
    split,
    size,
    ...(Object.hasOwn(hashes, split) ? { hash: hashes[split]! } : {}),
    task: (index) => {
      if (Number.isInteger(index) && index >= 0 && index < size) return task(index);
      throw new RangeError(
        `Cannot find task ${index} of "${environment}" (${split}): indexes go from 0 to ${size - 1}.`,
      );
    },
  };
}
