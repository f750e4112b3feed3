// Reads run folders, also those of runs that are in progress or were killed.

import { existsSync, statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, type Episode, messageOf } from "../core/index.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { episodeFromJson, groupFromJson } from "./records.ts";
import { readCheckedLines, readRawLines } from "./lines.ts";
import { runFiles, runFormat, type RunReader, shardedFormat, type TornLine } from "./run-store.ts";

const readableFormats: readonly number[] = [1, runFormat, shardedFormat];

export type RunFolderOptions = {
  /** Called with a torn last line. Default: it is left out silently. */
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
  async function* records<T>(name: string, read: (value: JsonValue, where: string) => T): AsyncGenerator<T> {
    const format = Number((await readManifest(folder)).get("format"));
    for await (const { bytes, where } of readCheckedLines(join(folder, name), format, report)) {
      yield read(parse(bytes.toString("utf8"), where), where);
    }
  }
  return {
    location: folder,
    manifest: () => readManifest(folder),
    episodes: () => records(runFiles.episodes, episodeFromJson),
    groups: () => records(runFiles.groups, (value, where) => groupFromJson(value, where).group),
    sampleLines: async function* (): AsyncGenerator<string> {
      const file = join(folder, runFiles.samples);
      if (!existsSync(file)) return;
      for await (const { bytes } of readRawLines(file, report)) yield bytes.toString("utf8");
    },
  };
}

/**
 * The episodes of a run folder, in the order they ended, one in memory at a time. A torn last line is left out and reported;
 * any other line that is not what was written, or cannot be read, throws, naming its number; so does a run of a newer format.
 */
export async function* readEpisodes(folder: string, options: RunFolderOptions = {}): AsyncGenerator<Episode> {
  yield* openRunFolder(folder, options).episodes();
}

/** Throws a `ConfigurationError` for a run of another format: its files would come to hold both. */
export function checkResumable(manifest: JsonObject, folder: string): void {
  const format = manifest.get("format");
  if (format === runFormat || format === shardedFormat) return;
  throw new ConfigurationError(
    `Cannot resume "${folder}": the run has format ${dumpJson(format ?? null)}, this version writes format ${runFormat}; ` +
      "resume it with the version that began it (see run.json), or begin a new run.",
  );
}

async function readManifest(folder: string): Promise<JsonObject> {
  const file = join(folder, runFiles.manifest);
  const manifest = parse(await readFile(file, "utf8"), file);
  if (!(manifest instanceof Map)) throw new ConfigurationError(`Cannot read "${file}": it holds no JSON object.`);
  const format = manifest.get("format");
  if (typeof format === "number" && readableFormats.includes(format)) return manifest;
  throw new ConfigurationError(
    `Cannot read run "${folder}": it has format ${dumpJson(format ?? null)}, this version writes format ${runFormat} ` +
      `(${shardedFormat} with shards) and reads 1 to ${shardedFormat}; use the version that wrote it (see run.json).`,
  );
}

function parse(text: string, where: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    throw new ConfigurationError(`Cannot read ${where}: ${messageOf(error)}`, { cause: error });
  }
}
