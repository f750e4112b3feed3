// Compares the runs that are shown as the command `compare` does: each later one against the first.

import { ConfigurationError } from "../core/index.ts";
import { type ComparedRun, comparisonSentence, compareTasks } from "../statistics/index.ts";
import type { RunView } from "./run-view.ts";
import type { ComparePage, Row } from "./wire/index.ts";

const mostRows = 500;

let latest: { readonly version: string; readonly page: ComparePage } | null = null;

/** Throws a `ConfigurationError` for fewer than two runs with episodes. */
export async function comparePage(all: readonly RunView[]): Promise<ComparePage> {
  const runs = all.filter(({ facts }) => facts.hasEpisodes);
  if (runs.length < 2)
    throw new ConfigurationError("Cannot compare runs: fewer than two are shown; name more of them.");
  const names = runs.map(({ facts }) => facts.name);
  const areUnique = new Set(names).size === names.length;
  const read: ComparedRun[] = [];
  for (const run of runs) {
    const rows = await run.allRows();
    read.push({ name: areUnique ? run.facts.name : run.facts.location, tasks: tasksOf(rows) });
  }
  const version = runs.map(({ key, facts, store }) => `${key}\n${facts.location}\n${store.count}`).join("\n");
  if (latest?.version === version) return latest.page;
  const { rows, ...comparison } = compareTasks(read);
  const page = {
    ...comparison,
    keys: runs.map(({ key }) => key),
    sentences: comparison.pairs.map(comparisonSentence),
    rows: rows.slice(0, mostRows),
    matched: rows.length,
  };
  latest = { version, page };
  return page;
}

function tasksOf(rows: readonly Row[]): ComparedRun["tasks"] {
  const tasks = new Map<
    string,
    { taskId: string; contentHash: string | null; episodes: { id: string; reward: number | null }[] }
  >();
  for (const { taskId, contentHash, id, reward } of rows) {
    const known = tasks.get(taskId) ?? { taskId, contentHash, episodes: [] };
    tasks.set(taskId, known);
    known.episodes.push({ id, reward });
  }
  return [...tasks.values()];
}
