// What of a run folder counts after its process died at any moment: whole lines, groups whose rows are all there, and the
// episodes in flight. Reads only; the store cuts the files when it takes them over.
//
//   episodes.jsonl ── ids of the episodes that ended
//   groups.jsonl ──── decided groups, as far as their rows and episodes are there
//   samples.jsonl ─── rows of those groups; the rest belongs to groups that are decided again
//   journal/ ──────── events of the episodes that have not ended

import { stat, type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";

import { ConfigurationError, type GroupRecord, type EpisodeEvent } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { journalLineEvent, journalLineHead, listSegments } from "./journal.ts";
import { checkLine, readRawLines } from "./lines.ts";
import { groupFromJson, type StoredGroup } from "./records.ts";
import { runFiles, runFormat, type TornLine } from "./run-store.ts";
import { jsonObject, text } from "./schema.ts";

export type EpisodeRequest = { readonly start: number; readonly length: number };

export type RecoveredFiles = {
  readonly episodes: ReadonlyMap<string, EpisodeRequest>;
  readonly groups: ReadonlyMap<string, GroupRecord>;
  readonly journal: RecoveredJournal;
  /** How many bytes of each file count. */
  readonly sizes: { readonly episodes: number; readonly groups: number; readonly samples: number };
  /** Ends of lines that were being written. */
  readonly torn: readonly TornLine[];
};

/** Throws a `ConfigurationError` for a line that cannot be read, with its place. */
export async function recoverFiles(folder: string): Promise<RecoveredFiles> {
  const torn: TornLine[] = [];
  const onTornLine = (line: TornLine): void => void torn.push(line);
  const episodes = await findEpisodes(join(folder, runFiles.episodes), onTornLine);
  const rows = await sizeOf(join(folder, runFiles.samples));
  const groups = await findGroups(join(folder, runFiles.groups), {
    onTornLine,
    isWhole: ({ group, samplesEnd }) => samplesEnd <= rows && group.episodeIds.every((id) => episodes.places.has(id)),
  });
  const journal = await readJournal(join(folder, runFiles.journal), {
    hasEnded: (id) => episodes.places.has(id),
    onTornLine,
  });
  return {
    episodes: episodes.places,
    groups: groups.decided,
    journal,
    sizes: { episodes: episodes.size, groups: groups.size, samples: groups.samplesEnd },
    torn,
  };
}

/** 0 for a file that is not there: its process died before it was made. */
async function sizeOf(file: string): Promise<number> {
  try {
    return (await stat(file)).size;
  } catch {
    return 0;
  }
}

type OnTornLine = (torn: TornLine) => void;

async function findEpisodes(file: string, onTornLine: OnTornLine) {
  const places = new Map<string, EpisodeRequest>();
  let [size, number] = [0, 0];
  if ((await sizeOf(file)) === 0) return { places, size };
  for await (const { bytes, start } of readRawLines(file, onTornLine)) {
    const length = bytes.length;
    const place = `line ${++number}`;
    checkLine(bytes, { file, place, format: runFormat });
    places.set(idOf(bytes, `"${file}" ${place}`), { start, length });
    size = start + length + 1;
  }
  return { places, size };
}

/** Our lines begin with the id; any other is read as JSON. */
function idOf(line: Buffer, where: string): string {
  const [, id] = /^\{"id":("(?:[^"\\]|\\.)*")/.exec(line.toString("utf8", 0, 1024)) ?? [];
  try {
    return id === undefined
      ? text.read(jsonObject.read(parseJson(line.toString("utf8")), where).get("id"), `${where}.id`)
      : (JSON.parse(id) as string);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(`Cannot resume with ${where}: ${reason}`, { cause: error });
  }
}

async function findGroups(
  file: string,
  options: { readonly onTornLine: OnTornLine; readonly isWhole: (group: StoredGroup) => boolean },
) {
  const decided = new Map<string, GroupRecord>();
  let [size, samplesEnd, number] = [0, 0, 0];
  if ((await sizeOf(file)) === 0) return { decided, size, samplesEnd };
  for await (const { bytes, start } of readRawLines(file, options.onTornLine)) {
    const place = `line ${++number}`;
    checkLine(bytes, { file, place, format: runFormat });
    const stored = readGroup(bytes, `"${file}" ${place}`);
    // After a power cut a group may be there without its rows; groups after it come after its rows.
    if (!options.isWhole(stored)) break;
    decided.set(stored.group.groupId, stored.group);
    size = start + bytes.length + 1;
    ({ samplesEnd } = stored);
  }
  return { decided, size, samplesEnd };
}

function readGroup(line: Buffer, where: string): StoredGroup {
  try {
    return groupFromJson(parseJson(line.toString("utf8")), where);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(`Cannot resume with ${where}: ${reason}`, { cause: error });
  }
}

type Slice = { readonly file: string; readonly start: number; readonly length: number };

type RecoveredJournal = {
  /** Episodes in flight, by segment; segments without any are there too. */
  readonly segments: ReadonlyMap<string, ReadonlySet<string>>;
  /** How many events are recorded of each episode in flight. */
  readonly counts: ReadonlyMap<string, number>;
  /** The events of an episode; empty when there are none. */
  read(episodeId: string): Promise<readonly EpisodeEvent[]>;
};

/**
 * Checks every line and skips episodes that have ended. The last line of a segment may be torn or broken: its process
 * died while it wrote. Throws a `ConfigurationError` for any other line that is broken or missing, with its place.
 */
async function readJournal(
  folder: string,
  options: { readonly hasEnded: (episodeId: string) => boolean; readonly onTornLine: (torn: TornLine) => void },
): Promise<RecoveredJournal> {
  const segments = new Map<string, Set<string>>();
  const slices = new Map<string, Slice[]>();
  for (const file of await listSegments(folder)) {
    const episodes = new Set<string>();
    segments.set(file, episodes);
    let broken: { readonly number: number; readonly start: number; readonly bytes: number } | null = null;
    let number = 0;
    for await (const { bytes, start } of readRawLines(file, options.onTornLine)) {
      number++;
      if (broken !== null) throw brokenLine(file, broken);
      const head = journalLineHead(bytes);
      if (head === null) {
        broken = { number, start, bytes: bytes.length };
        continue;
      }
      if (options.hasEnded(head.episodeId)) continue;
      const known = slices.get(head.episodeId) ?? [];
      if (head.number !== known.length) throw missingLine(file, { number, episodeId: head.episodeId }, known.length);
      slices.set(head.episodeId, known);
      known.push({ file, start, length: bytes.length });
      episodes.add(head.episodeId);
    }
    if (broken !== null) options.onTornLine({ file, bytes: broken.bytes + 1 });
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

function brokenLine(
  file: string,
  { number, start }: { readonly number: number; readonly start: number },
): ConfigurationError {
  return new ConfigurationError(
    `Cannot read the journal "${file}": line ${number}, at byte ${start}, is not what was written; its checksum is another one. ` +
      "Restore the file. If it is lost, cut the file there and remove the segments after it: their episodes then resume at an earlier turn.",
  );
}

function missingLine(
  file: string,
  line: { readonly number: number; readonly episodeId: string },
  expected: number,
): ConfigurationError {
  return new ConfigurationError(
    `Cannot read the journal "${file}": event ${expected} of episode "${line.episodeId}" is missing before line ${line.number}. ` +
      "Restore the segments of the journal; if they are lost, begin a new run.",
  );
}
