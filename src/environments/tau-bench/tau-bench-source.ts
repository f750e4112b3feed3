// The benchmark as a source of environments: domains by name, tasks by split and index. What one environment does is
// `tau-environment.ts`; where the data comes from is `prepared-folder.ts`.

import type { Environment, EnvironmentSource, Task, Taskset } from "../../core/environment.ts";
import { ConfigurationError } from "../../core/failure.ts";
import type { TauDomain } from "./tool.ts";
import { type DomainData, loadPreparedFolder, type TauTask } from "./domain-data.ts";
import { airlineDomain } from "./airline/airline-domain.ts";
import { retailDomain } from "./retail/retail-domain.ts";
import { TauEnvironment } from "./tau-environment.ts";

export type TauBenchOptions = {
  readonly domain: string;
  /** Holds a folder per domain: tables, tools.json, wiki.md, tasks_<split>.json. */
  readonly folder: string;
};

const domains: readonly TauDomain[] = [retailDomain, airlineDomain];

/** The domains that can be opened. */
export const tauBenchDomains: readonly string[] = domains.map(({ name }) => name);

/** Users that can take prose tasks. */
const users = ["llm", "react", "verify", "reflection", "human", "scripted", "replay"];

/** The data of a domain; read once per process and folder. Rejects with a `ConfigurationError` that names what is wrong. */
export async function loadTauBench({ domain: name, folder }: TauBenchOptions): Promise<DomainData> {
  const domain = domains.find((candidate) => candidate.name === name);
  if (domain !== undefined) return loadPreparedFolder(domain, folder);
  throw new ConfigurationError(
    `Cannot open tau-bench domain "${name}": there is none of that name; use one of ${tauBenchDomains.join(", ")}.`,
  );
}

/** The benchmark as environments of our loop: `tau-bench/<domain>`. Rejects as {@link loadTauBench} does. */
export async function tauBenchSource(options: TauBenchOptions): Promise<EnvironmentSource> {
  return sourceOf(await loadTauBench(options));
}

function sourceOf(data: DomainData): EnvironmentSource {
  const name = `tau-bench/${data.domain.name}`;
  return {
    name,
    splits: data.domain.splits,
    users,
    argumentErrors: "environment",
    taskset: (split) => tasksetOf(data, name, split),
    open: (task) => open(data, name, task),
  };
}

function tasksetOf(data: DomainData, environment: string, split: string): Taskset {
  const tasks = data.tasks.get(split);
  if (tasks === undefined) {
    throw new ConfigurationError(
      `Cannot open split "${split}" of environment "${environment}": it has ${data.domain.splits.map((known) => `"${known}"`).join(", ")}.`,
    );
  }
  return {
    environment,
    split,
    size: tasks.length,
    task: (index) => {
      const found = tasks[index];
      if (found !== undefined) return found.task;
      throw new RangeError(
        `Cannot find task ${index} of "${environment}" (${split}): indexes go from 0 to ${tasks.length - 1}.`,
      );
    },
  };
}

function open(data: DomainData, environment: string, task: Task): Environment {
  const found: TauTask | undefined = data.tasks.get(task.split)?.[task.index];
  if (task.environment !== environment || found === undefined) {
    throw new ConfigurationError(`Cannot open task "${task.id}": it is not of environment "${environment}".`);
  }
  if (found.task.contentHash !== task.contentHash) {
    throw new ConfigurationError(
      `Cannot open task "${task.id}": it was made from other data than is loaded (content hash ${task.contentHash}, ` +
        `loaded ${found.task.contentHash}); load the folder it was made from.`,
    );
  }
  return new TauEnvironment(data, found);
}
