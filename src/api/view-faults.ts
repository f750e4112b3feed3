// Whose fault the failures of a run are, for the viewer: by the rules of `eval`, with the facts that
// the data of τ-bench and τ²-bench state about a task where the run names that data and it is still
// there. Nothing that a run names is executed or started: only those two environments are opened.

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { attributeFault, conversationOf, type TaskFacts } from "../graders/index.ts";
import { parseJson } from "../python-semantics/json/index.ts";
import { episodeFromJson, openRunFolder, runFacts } from "../store/index.ts";
import type { RowFault } from "../viewer/index.ts";
import { taskFactsOf, type TaskFactsSource } from "./fault-policy.ts";
import { loadEnvironment } from "./load-environment.ts";

type Place = {
  /** Folder of the run. */
  readonly folder: string;
  /** Folder that relative paths of the run start from. */
  readonly cwd: string;
};

/** Facts by environment and data; `null` if only the record of an episode says something. */
const sources = new Map<string, Promise<TaskFactsSource | null>>();
const mostSources = 16;
/** Runs whose environment is known. */
const runs = new Map<string, Promise<TaskFactsSource | null>>();
const mostRuns = 1000;

/** Rejects for a line that is not an episode. */
export async function attributeStored(line: Buffer, place: Place): Promise<RowFault> {
  const episode = episodeFromJson(parseJson(line.toString("utf8")), "an episode");
  const { outcome, failure, task } = episode;
  const source = await sourceOf(place);
  const known = source === null ? null : await source(task).catch(() => null);
  const facts: TaskFacts = known ?? {
    instruction: task.instruction,
    tools: [],
    userTools: [],
    expectedCalls: null,
    isReachable: null,
    knownFacts: [],
  };
  return attributeFault({ conversation: conversationOf(episode), outcome, failure, facts });
}

function sourceOf({ folder, cwd }: Place): Promise<TaskFactsSource | null> {
  const key = JSON.stringify([folder, cwd]);
  const known = runs.get(key) ?? readSource(folder, cwd).catch(() => null);
  if (runs.size >= mostRuns) runs.clear();
  runs.set(key, known);
  return known;
}

async function readSource(folder: string, cwd: string): Promise<TaskFactsSource | null> {
  const { configuration } = runFacts(await openRunFolder(folder).manifest());
  const [env, named, solo] = ["env", "data", "solo"].map((name) => configuration?.get(name) ?? null);
  if (typeof env !== "string" || typeof named !== "string" || !/^tau2?-bench\/[\w-]+$/.test(env)) return null;
  const data = resolve(cwd, named);
  if (!existsSync(data)) return null;
  const settings = { data, ...(solo === true ? { solo } : {}) };
  const key = JSON.stringify([env, settings]);
  const known =
    sources.get(key) ?? loadEnvironment(env, { settings, cwd }).then(({ source }) => taskFactsOf(source, data));
  if (sources.size >= mostSources) sources.clear();
  sources.set(key, known);
  return known;
}
