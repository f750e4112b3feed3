// Exports a view of the viewer as one self-contained file: an episode, the episodes of a filter, a
// comparison, or a training. It holds the answers that its pages request, and opens from a disk
// without a server.

import { sep } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { answer, type ViewerParts } from "./answers.ts";
import { exportedPage, readPageParts } from "./page.ts";
import type { RunView } from "./run-view.ts";
import { apiPath, type Row, type RowPage } from "./wire/index.ts";

export type ExportChoice = {
  /** Number or id of the episode. */
  readonly episode?: string;
  /** An expression of `export --where`. */
  readonly where?: string;
};

/**
 * Largest number of episodes that a filter may export. More would make a file that no browser opens
 * quickly.
 */
const mostEpisodes = 1000;
const mostBytes = 200_000_000;
/** Number of tasks that flipped whose episodes a comparison exports: the first ones. */
const mostFlipped = 100;

/** The page as one HTML text. Rejects with a `ConfigurationError` for a choice that is empty or too large. */
export async function exportPage(parts: ViewerParts, choice: ExportChoice): Promise<string> {
  const answers: Record<string, string> = {};
  const keep = async (path: string): Promise<void> => {
    answers[path] = (await answer(`/${path}`, parts)).body.toString();
  };
  const { runs } = parts;
  const [run] = runs;
  if (run === undefined) throw new ConfigurationError("Cannot export nothing: name a run folder.");
  await keep(apiPath("runs"));
  let home = "#/0";
  if (choice.episode !== undefined) {
    const { row } = await run.episode(choice.episode);
    await keepEpisodes(run, [row], { answers, keep });
    home = `#/0/episode/${row.number}`;
  } else if (runs.every(({ facts }) => facts.hasTraining)) {
    for (const { key } of runs) await keep(apiPath("training", { run: key }));
    if (runs.length === 2) home = "#/0?with=1";
  } else if (choice.where === undefined && runs.some(({ facts }) => facts.hasTraining)) {
    // Runs beside trainings: each opens from the bar at the top.
    if (runs.filter(({ facts }) => facts.hasEpisodes).length > 1) await keep(apiPath("compare"));
    for (const one of runs) {
      if (one.facts.hasEpisodes) await keepFilter(one, undefined, { answers, keep });
      else await keep(apiPath("training", { run: one.key }));
    }
    home = `#/${runs.findIndex(({ facts }) => facts.hasEpisodes)}`;
  } else if (runs.length > 1 && choice.where === undefined) {
    await keepComparison(runs, { answers, keep });
    home = "#/compare";
  } else if (run.facts.hasEpisodes) await keepFilter(run, choice.where, { answers, keep });
  else {
    throw new ConfigurationError("Cannot export a training with --where: it stores no episodes; name it without.");
  }
  return exportedPage(await readPageParts(), { home, answers: withoutFolder(answers, runs) });
}

/**
 * Answers that name runs by their paths below the folder that holds them all: the page may go to other
 * people.
 */
function withoutFolder(answers: Readonly<Record<string, string>>, runs: readonly RunView[]): Record<string, string> {
  const paths = runs.map(({ facts }) => facts.location.split(sep));
  const differs = paths[0]!.findIndex((part, at) =>
    paths.some((other) => other[at] !== part || at === other.length - 1),
  );
  const renamed = paths.map((parts) =>
    [parts, parts.slice(differs)].map((path) => JSON.stringify(path.join(sep)).slice(1, -1)),
  );
  const named = ["runs", "summary", "compare", "training"].map((name) => apiPath(name));
  return Object.fromEntries(
    Object.entries(answers).map(([path, text]) => {
      if (!named.some((name) => path.startsWith(name))) return [path, text];
      return [path, renamed.reduce((shown, [whole = "", below = ""]) => shown.replaceAll(whole, below), text)];
    }),
  );
}

type Kept = { readonly answers: Record<string, string>; readonly keep: (path: string) => Promise<void> };

async function keepFilter(run: RunView, where: string | undefined, { answers, keep }: Kept): Promise<void> {
  await run.readAll();
  const page = await run.rows({ ...(where === undefined ? {} : { where }), from: 0, count: mostEpisodes });
  if (page.matched === 0)
    throw new ConfigurationError("Cannot export: no episode matches --where; use another expression.");
  if (page.matched > mostEpisodes) {
    throw new ConfigurationError(
      `Cannot export ${page.matched} episodes into one file: the limit is ${mostEpisodes}; choose some with --where, or one with --episode.`,
    );
  }
  await keep(apiPath("summary", { run: run.key }));
  const extracts = new Map(
    (await run.extracts(page.rows.map(({ number }) => number))).map((one) => [one.number, one.extract]),
  );
  const rows = page.rows.map((row) => ({ ...row, extract: extracts.get(row.number) ?? null }));
  answers[apiPath("rows", { run: run.key })] = JSON.stringify({ ...page, rows } satisfies RowPage);
  for (const groupId of new Set(page.rows.map((row) => row.groupId))) {
    const members = page.rows.filter((row) => row.groupId === groupId).sort((a, b) => a.sampleIndex - b.sampleIndex);
    answers[apiPath("group", { run: run.key, id: groupId })] = JSON.stringify(members);
  }
  await keepEpisodes(run, page.rows, { answers, keep });
}

async function keepComparison(runs: readonly RunView[], { answers, keep }: Kept): Promise<void> {
  await keep(apiPath("compare"));
  const { keys, rows } = JSON.parse(answers[apiPath("compare")]!) as {
    readonly keys: readonly string[];
    readonly rows: readonly {
      readonly changes: readonly (string | null)[];
      readonly runs: readonly ({ readonly episodes: readonly { readonly id: string }[] } | null)[];
    }[];
  };
  const flipped = rows.filter(({ changes }) => changes.some((change) => change === "lost" || change === "gained"));
  for (const task of flipped.slice(0, mostFlipped)) {
    for (const [at, inRun] of task.runs.entries()) {
      const run = runs.find(({ key }) => key === keys[at])!;
      for (const { id } of inRun?.episodes.slice(0, 8) ?? [])
        await keepEpisodes(run, [(await run.episode(id)).row], { answers, keep });
    }
  }
}

/** Keeps episodes under number and id, with the neighbours that are in the file. */
async function keepEpisodes(run: RunView, rows: readonly Row[], { answers, keep }: Kept): Promise<void> {
  const numbers = new Set(rows.map(({ number }) => number));
  const neighbour = (number: number | null): number | null => (number !== null && numbers.has(number) ? number : null);
  let bytes = 0;
  for (const { number, id } of rows) {
    const { episode, group, previous, next, row, trainer, mark } = await run.episode(String(number));
    bytes += episode.length + (trainer?.rows.reduce((sum, { logprobs }) => sum + logprobs.length, 0) ?? 0);
    if (bytes > mostBytes) {
      throw new ConfigurationError(
        `Cannot export into one file: it would exceed ${mostBytes / 1e6} MB; choose fewer episodes with --where.`,
      );
    }
    const facts = {
      row,
      group: group.filter((one) => numbers.has(one.number)),
      previous: neighbour(previous),
      next: neighbour(next),
      trainer,
      mark,
    };
    const body = `${JSON.stringify(facts).slice(0, -1)},"episode":${episode.toString("utf8")}}`;
    answers[apiPath("episode", { run: run.key, id: number })] = body;
    answers[apiPath("episode", { run: run.key, id })] = body;
    await keep(apiPath("text", { run: run.key, id: number }));
  }
}
