// Runs of τ²-bench as upstream's file of simulations: episodes are replayed in their world and
// evaluated again from their records, a judge's verdict included. A reward that differs from the
// recorded one stops the export: the data have changed.

import { basename, resolve } from "node:path";
import { ConfigurationError, type Episode, type EnvironmentSource } from "../core/index.ts";
import {
  type DomainData,
  evaluate,
  loadTau2Data,
  playableTasks,
  readVerdicts,
  replayTau2Episode,
  tau2ResultsBegin,
  tau2ResultsEnd,
  type Tau2RunFacts,
  type Tau2Simulation,
  tau2SimulationText,
  type Tau2Task,
} from "../environments/tau2-bench/index.ts";
import { createDocumentFile, type ExportFormat, type GroupToExport } from "../export/index.ts";
import { PythonError } from "../python-semantics/index.ts";
import type { RunFacts } from "../store/index.ts";
import { episodeUsage } from "../rollout/index.ts";

/** A run, from its folder and the settings of the export. */
export type Tau2Run = {
  /** `null` if it is the only one. */
  readonly name: string | null;
  readonly folder: string;
  readonly facts: RunFacts;
  readonly source: EnvironmentSource;
  /** The recorded or given path, relative to `cwd`. */
  readonly data: string | null;
  readonly cwd: string;
};

export type Tau2Export = {
  readonly format: ExportFormat;
  /** Builds the simulations of a group's episodes, which the rows are made from. */
  readonly learn: (group: GroupToExport) => Promise<void>;
};

type Played = { readonly task: Tau2Task; readonly simulation: Tau2Simulation };

/** Throws a `ConfigurationError` for runs of other environments, and of several domains. */
export async function openTau2Export(runs: readonly Tau2Run[]): Promise<Tau2Export> {
  const first = runs[0]!;
  const { name: environment } = first.source;
  const [, domain = "", solo] = /^tau2-bench\/(.+?)(-solo)?$/.exec(environment) ?? [];
  const other = domain === "" ? first : runs.find(({ source }) => source.name !== environment);
  if (other !== undefined) {
    const reason =
      domain === ""
        ? "they are not of τ²-bench"
        : `a file has one domain, and "${first.folder}" has ${environment}; export each domain separately`;
    throw new ConfigurationError(`Cannot export "${other.folder}" (${other.source.name}) to tau2: ${reason}.`);
  }
  const isSolo = solo !== undefined;
  const folders = runs.map(({ data, cwd }) => resolve(cwd, data ?? "."));
  const loaded = await Promise.all(folders.map((folder) => loadTau2Data({ domain, folder })));
  const places = new Map(runs.map((run, at) => [run.name, { run, data: loaded[at]! }]));
  const made = new WeakMap<Episode, Played>();
  const written: { readonly task: Tau2Task; readonly simulation: Pick<Tau2Simulation, "startedAt"> }[] = [];
  const trials = new TrialNumbers();
  const format: ExportFormat = {
    columns: [],
    takes: "all-groups",
    needsText: false,
    wholeGroups: false,
    holdsTurnRewards: true,
    holdsTurnBytes: false,
    teacherColumns: null,
    needsTools: false,
    file: (path) =>
      createDocumentFile(path, tau2ResultsBegin, () =>
        tau2ResultsEnd(loaded[0]!, written, { ...factsOf(first.facts), isSolo, trials: trials.most }),
      ),
    trainedTokens: () => null,
    whyLeftOut: "upstream's evaluator raises on it",
    rowsOf: (episodes) =>
      episodes.flatMap(({ origin }) => {
        const played = made.get(origin.episode);
        if (played === undefined) return [];
        const { task, simulation } = played;
        const trial = trials.next(task.id, { run: origin.run, index: simulation.trial });
        written.push({ task, simulation: { startedAt: simulation.startedAt } });
        const text = tau2SimulationText({ task, simulation: { ...simulation, trial } });
        return [{ row: { text }, episodes: [origin] }];
      }),
  };
  return {
    format,
    learn: async ({ run, episodes }) => {
      const { data, run: place } = places.get(run)!;
      for (const { episode } of episodes) {
        if (episode.reward === null) continue;
        const played = await play({ data, isSolo, place }, episode);
        if (played !== null) made.set(episode, played);
      }
    },
  };
}

/** Episodes of a task in several runs follow each other. */
class TrialNumbers {
  readonly #tasks = new Map<string, { run: string | null; base: number; next: number }>();
  most = 0;

  next(task: string, { run, index }: { readonly run: string | null; readonly index: number }): number {
    const known = this.#tasks.get(task) ?? { run, base: 0, next: 0 };
    if (known.run !== run) Object.assign(known, { run, base: known.next });
    const trial = known.base + index;
    known.next = Math.max(known.next, trial + 1);
    this.#tasks.set(task, known);
    this.most = Math.max(this.most, known.next);
    return trial;
  }
}

type Place = { readonly data: DomainData; readonly isSolo: boolean; readonly place: Tau2Run };

/** Returns `null` if upstream's evaluator raises on such an episode, and so on the whole file. */
async function play(
  { data, isSolo, place: { name, folder, facts, source } }: Place,
  episode: Episode,
): Promise<Played | null> {
  if (episode.events.some(({ type }) => type === "session")) {
    throw new ConfigurationError(
      `Cannot export episode "${episode.id}" of "${folder}" to tau2: a program outside ran it through the gateway, and its calls cannot be made again; leave the run out.`,
    );
  }
  const { split, index, contentHash } = episode.task;
  const isKnown = source.splits.includes(split) && index < source.taskset(split).size;
  const task = (await playableTasks(data, split, { isSolo }))[index];
  const mismatch = (what: string): ConfigurationError =>
    new ConfigurationError(
      `Cannot export episode "${episode.id}" of "${folder}" to tau2: ${what}; name the data of the run with --data.`,
    );
  if (!isKnown || task === undefined || source.taskset(split).task(index).contentHash !== contentHash) {
    throw mismatch(`its task "${episode.task.id}" is another one in these data`);
  }
  const { messages, reason, spent, durationMs } = await replayTau2Episode(data, task, episode, { isSolo });
  const judgement = episode.events.findLast(
    (event) => event.type === "judgement" && event.judgement.grader === "nl_assertions",
  );
  const answer = judgement?.type === "judgement" ? judgement.judgement.answer : null;
  let reward;
  try {
    const judge = answer === null ? {} : { judge: async () => readVerdicts(answer) };
    reward = await evaluate(data, task, messages, { reason, isSolo, ...judge });
  } catch (error) {
    if (error instanceof PythonError) return null;
    throw error;
  }
  // If models grade as well, the environment's grade is a metric.
  const recorded = episode.grade?.metrics["environment"] ?? episode.grade?.reward;
  if (reward.reward !== recorded) throw mismatch(`its reward is ${recorded}, but ${reward.reward} with this data`);
  const { agent, user } = episodeUsage(episode);
  const startedAt = timeOf(facts.startedAt) ?? 0;
  const simulation = {
    id: name === null ? episode.id : `${name}:${episode.id}`,
    taskId: task.id,
    trial: episode.sampleIndex,
    seed: episode.seed,
    reason,
    messages,
    spent,
    reward,
    durationMs,
    startedAt,
    endedAt: timeOf(facts.finishedAt) ?? startedAt,
    agentCost: agent.cost,
    userCost: user.cost,
  };
  return { task, simulation };
}

function timeOf(text: string | null): number | null {
  const time = Date.parse(text ?? "");
  return Number.isFinite(time) ? time : null;
}

const nameOf = (folder: string | null): string | null => (folder === null ? null : basename(folder));

/** Facts of the first run. The limits are the same for every rollout. */
function factsOf({ seed, user, agent, model, configuration }: RunFacts): Omit<Tau2RunFacts, "isSolo" | "trials"> {
  const named = (key: string): string | null => {
    const value = configuration?.get(key);
    return typeof value === "string" ? value : null;
  };
  const userModel = named("user-model");
  return {
    maxSteps: 200,
    maxErrors: 10,
    seed,
    agentModel: agent?.name ?? nameOf(model?.folder ?? null) ?? named("engine"),
    userModel,
    ...(userModel === null && user !== null ? { user } : {}),
  };
}
