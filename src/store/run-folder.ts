// Reads run folders, also those of runs that are under way or were killed.

import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, type Episode, type GroupRecord } from "../core/index.ts";
import { parseJson } from "../lib/json/parse-json.ts";
import type { JsonValue } from "../lib/json/value.ts";
import { episodeFromJson } from "./episode-from-json.ts";
import { groupFromJson, type StoredGroup } from "./group-json.ts";
import { readLines } from "./read-lines.ts";
import { runFiles } from "./run-files.ts";
import type { RunReader, TornLine } from "./run-store.ts";

export type RunFolderOptions = {
  /** Told of a last line that was cut off. Default: nobody is told. */
  readonly onTornLine?: (torn: TornLine) => void;
};

/** A run folder as a reader. Throws a `ConfigurationError` when the folder is missing or holds no run. */
export function openRunFolder(folder: string, options: RunFolderOptions = {}): RunReader {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) {
    throw new ConfigurationError(`Cannot read run "${folder}": there is no such folder; name the folder of a rollout.`);
  }
  for (const file of [runFiles.manifest, runFiles.episodes]) {
    if (existsSync(join(folder, file))) continue;
    throw new ConfigurationError(
      `Cannot read run "${folder}": it has no "${file}"; name the folder that a rollout wrote (its --out).`,
    );
  }
  const report = options.onTornLine ?? (() => undefined);
  return {
    location: folder,
    manifest: async () => {
      const file = join(folder, runFiles.manifest);
      const manifest = parse(await readFile(file, "utf8"), file);
      if (manifest instanceof Map) return manifest;
      throw new ConfigurationError(`Cannot read "${file}": it holds no JSON object.`);
    },
    episodes: () => readEpisodes(folder, { onTornLine: report }),
    groups: async function* (): AsyncGenerator<GroupRecord> {
      for await (const { group } of readGroups(folder, { onTornLine: report })) yield group;
    },
    sampleLines: () => readLines(join(folder, runFiles.samples), report),
  };
}

/**
 * The episodes of a run folder, in the order they ended, one in memory at a time. A torn last line is left out and reported;
 * any other line that cannot be read throws, naming its number.
 */
export function readEpisodes(folder: string, options: RunFolderOptions = {}): AsyncGenerator<Episode> {
  return readRecords(join(folder, runFiles.episodes), episodeFromJson, options);
}

/** The decided groups of a run folder; otherwise as `readEpisodes`. */
export function readGroups(folder: string, options: RunFolderOptions = {}): AsyncGenerator<StoredGroup> {
  return readRecords(join(folder, runFiles.groups), groupFromJson, options);
}

async function* readRecords<T>(
  file: string,
  read: (value: JsonValue, where: string) => T,
  options: RunFolderOptions,
): AsyncGenerator<T> {
  let number = 0;
  for await (const line of readLines(file, options.onTornLine ?? (() => undefined))) {
    number++;
    const where = `"${file}" line ${number}`;
    yield read(parse(line, where), where);
  }
}

function parse(text: string, where: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(`Cannot read ${where}: ${reason}`, { cause: error });
  }
}
