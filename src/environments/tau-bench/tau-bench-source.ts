// The benchmark as a source of environments: domains by name, tasks by split and index; calls,
// messages, one grade. The user is part of the loop, not of the environment, and no error escapes
// from a call. For the reference's own interface, quirks of stepping included, see
// `tau-episode.ts`; for the origin of the data, see `domain-data.ts`.

import type { Environment, Grade, LocalEnvironmentSource, Task } from "../../core/environment.ts";
import { ConfigurationError } from "../../core/failure.ts";
import type { JsonValue } from "../../python-semantics/json/index.ts";
import { createTaskset } from "../../core/taskset.ts";
import { airlineDomain } from "./airline.ts";
import { type DomainData, loadPreparedFolder, type TauTask } from "./domain-data.ts";
import { retailDomain } from "./retail.ts";
import { goldOf, rewardOf, stepInfo, type TauReward } from "./reward.ts";
import { callAction, respondName, type TauAction, type TauDomain } from "./domain.ts";
import { World } from "./world.ts";
import { remedyFor } from "../../lib/nearest.ts";

export type TauBenchOptions = {
  readonly domain: string;
  /** Folder with one subfolder per domain: tables, tools.json, wiki.md, tasks_<split>.json. */
  readonly folder: string;
};

const domains: Readonly<Record<string, TauDomain>> = { retail: retailDomain, airline: airlineDomain };

/** Names of the domains that can be opened. */
export const tauBenchDomains: readonly string[] = Object.keys(domains);

/**
 * The data of a domain, read once per process and folder. Rejects with a `ConfigurationError` that
 * names the fault.
 */
export async function loadTauBench({ domain: name, folder }: TauBenchOptions): Promise<DomainData> {
  const domain = Object.values(domains).find((candidate) => candidate.name === name);
  if (domain !== undefined) return loadPreparedFolder(domain, folder);
  throw new ConfigurationError(
    `Cannot open tau-bench domain "${name}": it does not exist; ${remedyFor(name, tauBenchDomains)}`,
  );
}

/**
 * The benchmark as environments of our loop: `tau-bench/<domain>`. Rejects like {@link
 * loadTauBench}.
 */
export async function tauBenchSource(options: TauBenchOptions): Promise<LocalEnvironmentSource> {
  const data = await loadTauBench(options);
  const name = `tau-bench/${data.domain.name}`;
  const sizes = Object.fromEntries([...data.tasks].map(([split, tasks]) => [split, tasks.length]));
  return {
    name,
    splits: data.domain.splits,
    // Users that accept prose tasks.
    users: ["llm", "react", "verify", "reflection", "human", "scripted", "replay"],
    argumentErrors: "environment",
    unknownTools: "environment",
    calls: "one",
    taskset: (split) => createTaskset(name, split, { sizes, task: (index) => data.tasks.get(split)![index]!.task }),
    open: (task) => open(data, name, task),
  };
}

function open(data: DomainData, environment: string, task: Task): Environment {
  const found = data.tasks.get(task.split)?.[task.index];
  if (task.environment !== environment || found === undefined) {
    throw new ConfigurationError(`Cannot open task "${task.id}": it is not a task of environment "${environment}".`);
  }
  if (found.task.contentHash !== task.contentHash) {
    throw new ConfigurationError(
      `Cannot open task "${task.id}": it was made from different data than the data loaded (content hash ${task.contentHash}, ` +
        `loaded ${found.task.contentHash}); load the folder it was made from.`,
    );
  }
  return createEnvironment(data, found);
}

function createEnvironment(data: DomainData, task: TauTask): Environment {
  const world = new World(data.base);
  /** The agent's messages, as the actions that the reference records for them. */
  const said: TauAction[] = [];
  return {
    task: task.task,
    guidelines: data.guidelines,
    tools: data.tools,
    info: stepInfo(task, "user"),
    call: ({ name, arguments: kwargs }) => {
      const { observation, endsEpisode } = callAction(data.domain, world, { name, kwargs });
      // If a tool returns None, the reference itself crashes; the policy reads Python's name of the
      // value.
      const text = observation ?? "None";
      const isError = text.startsWith("Error: ") || text === `Unknown action ${name}`;
      return { text, isError, endsEpisode, info: new Map([["source", name]]) };
    },
    receiveUtterance: (utterance) => {
      said.push({ name: respondName, kwargs: new Map([["content", utterance]]) });
    },
    // A truncated episode earns 0, as in the reference, which only computes a reward when an
    // episode is done.
    grade: ({ outcome }) => {
      const result = rewardOf({ world, actions: said }, task, goldOf(data, task));
      const isCompleted = outcome === "completed";
      return {
        reward: isCompleted ? result.reward : 0,
        ...explain(result, isCompleted),
        info: new Map<string, JsonValue>([
          ["reward_info", isCompleted ? result.info : null],
          ...(result.difference.length === 0 ? [] : new Map([["state_difference", [...result.difference]]])),
        ]),
      };
    },
    digest: () => world.digest(),
  };
}

/** Metrics and log of a grade; `outputs_said` is only given for tasks with outputs. */
function explain({ wrongRecords, outputs }: TauReward, isCompleted: boolean): Pick<Grade, "metrics" | "log"> {
  const unsaid = [...outputs].filter(([, said]) => !said).map(([output]) => `"${output}"`);
  const metrics: Record<string, number> = { database_right: wrongRecords.length === 0 ? 1 : 0 };
  if (outputs.size > 0) metrics["outputs_said"] = unsaid.length === 0 ? 1 : 0;
  const notes = [
    isCompleted ? "" : "The episode was cut off before its end.",
    wrongRecords.length === 0 ? "" : `Not as the task expects them: ${wrongRecords.join(", ")}.`,
    unsaid.length === 0 ? "" : `Never said: ${unsaid.join(", ")}.`,
  ];
  return { metrics, log: notes.filter((note) => note !== "").join(" ") };
}
