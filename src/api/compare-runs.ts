// compareRuns(): compares run folders and result files task by task. The statistics are in
// `statistics/`; this file reads each source into its tasks with the rewards of their episodes.

import { existsSync } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { openForeignFile } from "../foreign/index.ts";
import { type ComparedRun, type ComparedTask, compareTasks, type Comparison } from "../statistics/index.ts";
import { openRunFolder, runFiles } from "../store/index.ts";
import type { CallOptions } from "./options.ts";
import { readRegular } from "../system/regular-file.ts";

/** Options of {@link compareRuns}: the flags of the command `compare` in camelCase. */
export type CompareRunsOptions = Pick<CallOptions, "cwd"> & {
  /** At least two run folders or result files; each later one is compared with the first. */
  readonly runs: readonly string[];
  /** Names of the runs in the result, one for each. @default the last part of each path */
  readonly names?: readonly string[];
  /** Seed of the bootstrap and of random signs. @default 0 */
  readonly seed?: number;
  /** Receives notices for people, synchronously, such as a torn last line. @default none */
  readonly onNotice?: (message: string) => void;
};

/** The public function of this name: `functions.ts`. */
export async function compareRuns(options: CompareRunsOptions): Promise<Comparison> {
  const { runs, seed = 0 } = options;
  if (runs.length < 2) {
    throw new ConfigurationError(
      `Cannot compare runs: ${runs.length === 1 ? "one is" : "none is"} named; name two or more run folders or result files.`,
    );
  }
  if (!Number.isSafeInteger(seed)) {
    throw new ConfigurationError(`Cannot compare runs: --seed is ${seed}, expected a whole number.`);
  }
  const names = options.names ?? shortNames(runs);
  const read: ComparedRun[] = [];
  for (const [at, run] of runs.entries()) read.push({ name: names[at]!, tasks: await readTasks(run, options) });
  return compareTasks(read, { seed });
}

/** The last part of each path, if these parts differ. */
function shortNames(runs: readonly string[]): readonly string[] {
  const short = runs.map((run) => basename(resolve(run)));
  return new Set(short).size === runs.length ? short : runs;
}

async function readTasks(run: string, { cwd = process.cwd(), onNotice }: CompareRunsOptions): Promise<ComparedTask[]> {
  const path = resolve(cwd, run);
  const found = await stat(path).catch(() => null);
  if (found === null) {
    throw new ConfigurationError(`Cannot read "${run}": there is no such file or folder; correct its path.`);
  }
  const tasks = new TaskCollector();
  const isRun = found.isDirectory() && existsSync(join(path, runFiles.manifest));
  const foreign = isRun ? null : await openForeignFile(path, run);
  if (foreign !== null) {
    let repeated = 0;
    const onRepeated = (): void => void repeated++;
    for await (const { id, taskId, contentHash, reward } of foreign.episodes({ onRepeated }))
      tasks.add(taskId, contentHash, { id, reward });
    if (repeated > 0)
      onNotice?.(`Note: ${repeated} episodes of "${run}" repeat others in it; each recording counts once.`);
  } else if (found.isDirectory()) {
    const reader = openRunFolder(path, {
      onTornLine: ({ bytes }) =>
        onNotice?.(`Note: the last line of "${run}" was cut short (${bytes} bytes) and is left out.`),
    });
    for await (const { id, task, reward } of reader.summaries()) tasks.add(task.id, task.contentHash, { id, reward });
  } else {
    for (const { taskId, contentHash, trial, reward } of await readScores(path, run)) {
      tasks.add(taskId, contentHash, { id: `trial ${trial}`, reward });
    }
  }
  return tasks.all();
}

class TaskCollector {
  readonly #tasks = new Map<string, ComparedTask & { readonly episodes: ComparedTask["episodes"][number][] }>();

  add(taskId: string, hash: string | null, episode: ComparedTask["episodes"][number]): void {
    // An environment may leave the hash empty.
    const contentHash = hash === "" ? null : hash;
    const key = `${contentHash} ${taskId}`;
    const known = this.#tasks.get(key) ?? { taskId, contentHash, episodes: [] };
    known.episodes.push(episode);
    this.#tasks.set(key, known);
  }

  all(): ComparedTask[] {
    return [...this.#tasks.values()];
  }
}

/** Fields of results.json that are read; `contentHash` is absent in files of other tools. */
const resultsFile = z.object({
  format: z.literal(1),
  scores: z.array(
    z.object({
      taskId: z.string(),
      contentHash: z.string().nullable().default(null),
      trial: z.number(),
      reward: z.number().nullable(),
    }),
  ),
});

async function readScores(path: string, name: string): Promise<z.infer<typeof resultsFile>["scores"]> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(await readRegular(path, "utf8"));
  } catch (cause) {
    throw new ConfigurationError(`Cannot read "${name}": ${messageOf(cause)}; name a run folder or results.json.`, {
      cause,
    });
  }
  const result = resultsFile.safeParse(parsed);
  if (result.success) return result.data.scores;
  throw new ConfigurationError(
    `Cannot read "${name}": it is neither results.json of an evaluation nor a file of a supported tool (slime, verifiers, inspect, ATIF, τ-bench, τ²-bench); name a run folder or such a file.`,
  );
}
