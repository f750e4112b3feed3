// What of `index.jsonl` counts after its process died at any moment. Without shards it is derived: whatever does not agree with
// `episodes.jsonl` is made again. With shards it is the only record of which of their lines count, so that a line that is not what was
// written stops the run from resuming. Reads only.

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { EpisodeFiles } from "./episode-files.ts";
import { type EpisodePlace, type EpisodeSummary, readSummary } from "./episode-index.ts";
import { readRawLines } from "./lines.ts";
import { runFiles, type TornLine } from "./run-store.ts";

export type RecoveredIndex = {
  /** Bytes that are right as they stand, and lines in them. */
  readonly size: number;
  readonly lines: number;
  /** Further lines that count, whose numbers change. */
  readonly kept: readonly EpisodeSummary[];
  /** Episodes of `episodes.jsonl` without a line. */
  readonly missing: ReadonlyMap<string, EpisodePlace>;
  /** Of episodes in shards. */
  readonly shardPlaces: ReadonlyMap<string, EpisodePlace>;
};

/** `own`: of `episodes.jsonl`, in its order. Throws a `ConfigurationError` for an index that has lost episodes of shards. */
export async function recoverIndex(
  folder: string,
  own: ReadonlyMap<string, EpisodePlace>,
  { hasShards, onTornLine }: { readonly hasShards: boolean; readonly onTornLine: (torn: TornLine) => void },
): Promise<RecoveredIndex> {
  const file = join(folder, runFiles.index);
  const missing = new Map(own);
  const order = [...own.keys()];
  const shardPlaces = new Map<string, EpisodePlace>();
  const kept: EpisodeSummary[] = [];
  let [size, lines, isIntact] = [0, 0, true];
  const found = (): RecoveredIndex => ({ size, lines, kept, missing, shardPlaces });
  if ((await stat(file).catch(() => null)) === null) {
    if (!hasShards) return found();
    throw new ConfigurationError(
      `Cannot resume "${folder}": it has no "${runFiles.index}", which says what of its shards counts; restore the file, or begin a new run.`,
    );
  }
  const files = new EpisodeFiles(folder);
  try {
    let number = 0;
    for await (const { bytes, start } of readRawLines(file, hasShards ? onTornLine : () => undefined)) {
      let summary: EpisodeSummary;
      try {
        summary = readSummary(bytes, file, `line ${++number}`);
      } catch (error) {
        if (hasShards) throw error;
        break;
      }
      const { id, place } = summary;
      const isFirst = place.shard === null ? isSame(missing.get(id), place) : !own.has(id) && !shardPlaces.has(id);
      // Derived: line by line what would be written.
      const isNext = summary.number === lines + 1 && order[lines] === id;
      if (!hasShards && !(isFirst && isNext && place.shard === null)) break;
      if (isFirst) {
        missing.delete(id);
        if (place.shard !== null) {
          await files.line(id, place);
          shardPlaces.set(id, place);
        }
      }
      isIntact &&= isFirst && summary.number === lines + 1;
      if (isIntact) {
        size = start + bytes.length + 1;
        lines++;
      } else if (isFirst) {
        kept.push(summary);
      }
    }
  } finally {
    await files.close();
  }
  return found();
}

function isSame(one: EpisodePlace | undefined, other: EpisodePlace): boolean {
  return one !== undefined && one.offset === other.offset && one.length === other.length && one.crc32 === other.crc32;
}
