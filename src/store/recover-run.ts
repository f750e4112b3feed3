// What of a run folder counts after its process died at any moment: whole lines, groups whose rows are all there, and the
// episodes under way. Reads only; the store cuts the files when it takes them over.
//
//   episodes.jsonl ── ids of the episodes that ended
//   groups.jsonl ──── decided groups, as far as their rows and episodes are there
//   samples.jsonl ─── rows of those groups; the rest belongs to groups that are decided again
//   journal/ ──────── events of the episodes that have not ended

import { stat } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, type GroupRecord } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { groupFromJson, type StoredGroup } from "./group-json.ts";
import { JsonFields } from "./json-fields.ts";
import { readJournal, type RecoveredJournal } from "./journal-reader.ts";
import { checkLine } from "./line-checksum.ts";
import { readRawLines } from "./read-lines.ts";
import { runFiles, runFormat } from "./run-files.ts";
import type { TornLine } from "./run-store.ts";

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
    places.set(episodeId(bytes, `"${file}" ${place}`), { start, length });
    size = start + length + 1;
  }
  return { places, size };
}

/** Our lines begin with the id; any other is read as JSON. */
function episodeId(line: Buffer, where: string): string {
  const [, id] = /^\{"id":("(?:[^"\\]|\\.)*")/.exec(line.toString("utf8", 0, 1024)) ?? [];
  try {
    return id === undefined
      ? new JsonFields(parseJson(line.toString("utf8")), where).text("id")
      : (JSON.parse(id) as string);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new ConfigurationError(`Cannot go on with ${where}: ${reason}`, { cause: error });
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
    throw new ConfigurationError(`Cannot go on with ${where}: ${reason}`, { cause: error });
  }
}
