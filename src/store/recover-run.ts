// The part of a run folder that counts after its process died at any moment: whole lines, groups
// whose rows are all there, and the episodes in flight. Reads only; the store cuts the files when
// it takes them over.
//
//   episodes.jsonl ── ids of the episodes that ended
//   index.jsonl ───── the same, completed from episodes.jsonl; and which lines of the shards count
//   groups.jsonl ──── decided groups, as far as their rows and episodes are there
//   samples.jsonl ─── rows of those groups; the rest belongs to groups that are decided again
//   journal/ ──────── events of the episodes that have not ended

import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError, type EpisodeEvent, type GroupRecord, messageOf } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { EpisodeFiles } from "./episode-files.ts";
import { type EpisodePlace, type EpisodeSummary, readSummary } from "./episode-index.ts";
import { journalLineEvent, journalLineHead, type JournalState, listSegments } from "./journal.ts";
import { type CheckedLine, readCheckedLines, readRawLines, sizeOf } from "./lines.ts";
import { groupFromJson } from "./records.ts";
import { runFiles, type TornLine } from "./run-store.ts";
import { jsonObject, text } from "./schema.ts";

export type RecoveredFiles = {
  readonly episodes: ReadonlyMap<string, EpisodePlace>;
  /** True: some episodes are stored in shards. */
  readonly hasShards: boolean;
  readonly index: RecoveredIndex;
  readonly groups: ReadonlyMap<string, GroupRecord>;
  readonly journal: RecoveredJournal;
  /** Bytes of each file that count. */
  readonly sizes: { readonly episodes: number; readonly groups: number; readonly samples: number };
  /** Ends of unfinished lines. */
  readonly torn: readonly TornLine[];
};

/** Throws a `ConfigurationError` for a line that cannot be read, with its place. */
export async function recoverFiles(folder: string, hasShards: boolean): Promise<RecoveredFiles> {
  const torn: TornLine[] = [];
  const onTornLine = (line: TornLine): void => void torn.push(line);
  const linesOf = async function* (name: string): AsyncGenerator<CheckedLine> {
    const file = join(folder, name);
    if ((await sizeOf(file)) > 0) yield* readCheckedLines(file, onTornLine);
  };

  const own = new Map<string, EpisodePlace>();
  const sizes = { episodes: 0, groups: 0, samples: 0 };
  for await (const { bytes, start, where, crc32 } of linesOf(runFiles.episodes)) {
    own.set(
      readable(where, () => episodeIdOf(bytes, where)),
      { shard: null, offset: start, length: bytes.length, crc32 },
    );
    sizes.episodes = start + bytes.length + 1;
  }
  const index = await recoverIndex(folder, own, { onTornLine, hasShards });
  const episodes = new Map([...index.shardPlaces, ...own]);
  const groups = new Map<string, GroupRecord>();
  const rows = await sizeOf(join(folder, runFiles.samples));
  for await (const { bytes, start, where } of linesOf(runFiles.groups)) {
    const { group, samplesEnd } = readable(where, () => groupFromJson(parseJson(bytes.toString("utf8")), where));
    // After a power cut a group may exist without its rows; rows of later groups come after the
    // missing ones.
    if (samplesEnd > rows || !group.episodeIds.every((id) => episodes.has(id))) break;
    groups.set(group.groupId, group);
    sizes.groups = start + bytes.length + 1;
    sizes.samples = samplesEnd;
  }
  const hasEnded = (id: string): boolean => episodes.has(id);
  const journal = await readJournal(join(folder, runFiles.journal), { hasEnded, onTornLine });
  return { episodes, hasShards, index, groups, journal, sizes, torn };
}

/** Our lines begin with the id; any other is read as JSON. */
export function episodeIdOf(line: Buffer, where: string): string {
  const [, id] = /^\{"id":("(?:[^"\\]|\\.)*")/.exec(line.toString("utf8", 0, 1024)) ?? [];
  if (id !== undefined) return JSON.parse(id) as string;
  return text.read(jsonObject.read(parseJson(line.toString("utf8")), where).get("id"), `${where}.id`);
}

function readable<T>(where: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigurationError(`Cannot resume with ${where}: ${messageOf(error)}`, { cause: error });
  }
}

type Slice = { readonly file: string; readonly start: number; readonly length: number };

/** A recovered journal; `segments` includes those without any episode in flight. */
export type RecoveredJournal = JournalState & {
  /** The events of an episode; empty when there are none. */
  read(episodeId: string): Promise<readonly EpisodeEvent[]>;
};

/**
 * Checks every line and skips episodes that have ended. The last line of a segment may be torn or
 * broken, because its process died during a write. Throws a `ConfigurationError` for any other line
 * that is broken or missing, with its place.
 */
export async function readJournal(
  folder: string,
  options: {
    readonly hasEnded: (episodeId: string) => boolean;
    readonly onTornLine?: (torn: TornLine) => void;
    /**
     * True: the journal's process may be alive, so an episode without its first events has ended,
     * and its first segment has been removed. Default: false.
     */
    readonly isLive?: boolean;
  },
): Promise<RecoveredJournal> {
  const { onTornLine = () => undefined } = options;
  const segments = new Map<string, Set<string>>();
  const slices = new Map<string, Slice[]>();
  for (const file of await listSegments(folder)) {
    const episodes = new Set<string>();
    segments.set(file, episodes);
    let broken: { readonly line: string; readonly bytes: number } | null = null;
    let number = 0;
    for await (const { bytes, start } of readRawLines(file, onTornLine)) {
      number++;
      if (broken !== null) {
        throw new ConfigurationError(
          `Cannot read the journal "${file}": ${broken.line}, is not what was written; its checksum is another one. ` +
            "Restore the file. If it is lost, cut the file there and remove the segments after it: their episodes then resume at an earlier turn.",
        );
      }
      const head = journalLineHead(bytes);
      if (head === null) {
        broken = { line: `line ${number}, at byte ${start}`, bytes: bytes.length };
        continue;
      }
      const { episodeId } = head;
      if (options.hasEnded(episodeId)) continue;
      const known = slices.get(episodeId) ?? [];
      if (head.number !== known.length) {
        if (options.isLive === true) {
          slices.delete(episodeId);
          continue;
        }
        throw new ConfigurationError(
          `Cannot read the journal "${file}": event ${known.length} of episode "${episodeId}" is missing before line ${number}. ` +
            "Restore the segments of the journal; if they are lost, begin a new run.",
        );
      }
      slices.set(episodeId, known);
      known.push({ file, start, length: bytes.length });
      episodes.add(episodeId);
    }
    if (broken !== null) onTornLine({ file, bytes: broken.bytes + 1 });
  }
  return {
    segments,
    counts: new Map([...slices].map(([id, list]) => [id, list.length])),
    read: (episodeId) => readSlices(slices.get(episodeId) ?? []),
  };
}

async function readSlices(slices: readonly Slice[]): Promise<readonly EpisodeEvent[]> {
  const handles = new Map<string, FileHandle>();
  const events: EpisodeEvent[] = [];
  try {
    for (const { file, start, length } of slices) {
      const handle = handles.get(file) ?? (await open(file, "r"));
      handles.set(file, handle);
      const { buffer } = await handle.read(Buffer.alloc(length), 0, length, start);
      events.push(journalLineEvent(buffer, `"${file}" at byte ${start}`));
    }
  } finally {
    for (const handle of handles.values()) await handle.close();
  }
  return events;
}

// The part of `index.jsonl` that counts after its process died at any moment. Without shards it is
// derived: lines that do not agree with `episodes.jsonl` are made again. With shards it is the only
// record of which of their lines count, so a corrupted line stops the run from resuming. Reads
// only.

type RecoveredIndex = {
  /** Size of the valid beginning in bytes, and its number of lines. */
  readonly size: number;
  readonly lines: number;
  /** Further lines that count, but with other numbers. */
  readonly kept: readonly EpisodeSummary[];
  /** Episodes of `episodes.jsonl` that are not in the index. */
  readonly missing: ReadonlyMap<string, EpisodePlace>;
  /** Places of episodes in shards. */
  readonly shardPlaces: ReadonlyMap<string, EpisodePlace>;
};

/**
 * `own`: places of the episodes of `episodes.jsonl`, in its order. Throws a `ConfigurationError`
 * for an index that has lost episodes of shards.
 */
async function recoverIndex(
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
      `Cannot resume "${folder}": it has no "${runFiles.index}", which says which entries of its shards count; restore the file, or start a new run.`,
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
      // A derived index must be equal, line by line, to the one that would be written.
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
