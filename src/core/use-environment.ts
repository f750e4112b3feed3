// An environment outside of an episode, for reading its guidelines and tools or replaying a record;
// it is always closed. Also, the splits of a source.

import type { Environment, EnvironmentSource, Task } from "./environment.ts";

/**
 * Resolves with the result of `use` for the environment of a task, which is closed afterwards.
 * Rejects if `open` or `use` does; errors of `close` are ignored, as in an episode.
 */
export async function useEnvironment<T>(
  source: Pick<EnvironmentSource, "open">,
  task: Task,
  use: (environment: Environment) => T | Promise<T>,
): Promise<T> {
  const environment = await openFor(source, task);
  try {
    return await use(environment);
  } finally {
    await closeQuietly(environment);
  }
}

/** Synchronous {@link useEnvironment}; `null` if the environment opens asynchronously. */
export function lookIntoEnvironment<T>(
  source: Pick<EnvironmentSource, "open">,
  task: Task,
  look: (environment: Environment) => T,
): T | null {
  const opened = openFor(source, task);
  if ("then" in opened) {
    opened.then(closeQuietly, () => undefined);
    return null;
  }
  try {
    return look(opened);
  } finally {
    void closeQuietly(opened);
  }
}

function openFor(source: Pick<EnvironmentSource, "open">, task: Task): Environment | Promise<Environment> {
  return source.open(task, { seed: 0, signal: new AbortController().signal });
}

async function closeQuietly(environment: Environment): Promise<void> {
  try {
    await environment.close?.();
  } catch {
    // The caller already has its result.
  }
}

/** True if a source has a split of this name, listed or drawn from a seed. */
export function hasSplit({ splits, seededSplits = [] }: EnvironmentSource, split: string): boolean {
  const [, name = "", seed] = /^(.+):(0|[1-9]\d{0,14})$/.exec(split) ?? [];
  return splits.includes(split) || (seed !== undefined && seededSplits.includes(name));
}

/** The splits of a source as text for people. */
export function splitsText({ splits, seededSplits = [] }: EnvironmentSource): string {
  return [...splits, ...seededSplits.map((name) => `${name}:<seed>`)].join(", ");
}
