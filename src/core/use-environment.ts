// An environment outside of an episode: to read its guidelines and tools, to replay what was recorded. Whoever opens one this way
// cannot forget to close it. And which splits a source has.

import type { Environment, EnvironmentSource, Task } from "./environment.ts";

/**
 * What `use` returns of the environment of a task, which is closed afterwards. Rejects as `open` and `use` do; what `close`
 * throws is ignored, as in an episode.
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

/** As {@link useEnvironment}, at once; `null` where the environment opens later. */
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
    // What it was opened for is there.
  }
}

/** Whether a source has a split of this name, listed or drawn from a seed. */
export function hasSplit({ splits, seededSplits = [] }: EnvironmentSource, split: string): boolean {
  const [, name = "", seed] = /^(.+):(0|[1-9]\d{0,14})$/.exec(split) ?? [];
  return splits.includes(split) || (seed !== undefined && seededSplits.includes(name));
}

/** The splits of a source, for people. */
export function splitsText({ splits, seededSplits = [] }: EnvironmentSource): string {
  return [...splits, ...seededSplits.map((name) => `${name}:<seed>`)].join(", ");
}
