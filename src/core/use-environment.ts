// An environment outside of an episode: to read its guidelines and tools, to replay what was recorded. Whoever opens one this way
// cannot forget to close it.

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
