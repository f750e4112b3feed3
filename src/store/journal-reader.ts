// Reads the journal of a run whose process died: which episodes are under way, and where their events stand. Only places are
// kept in memory; events are read when somebody asks for them.

import { type FileHandle, open } from "node:fs/promises";
import { ConfigurationError, type EpisodeEvent } from "../core/index.ts";
import { journalLineEvent, journalLineHead } from "./journal-line.ts";
import { listSegments } from "./journal-segments.ts";
import { readRawLines } from "./read-lines.ts";
import type { TornLine } from "./run-store.ts";

type Slice = { readonly file: string; readonly start: number; readonly length: number };

export type RecoveredJournal = {
  /** Episodes under way, by segment; segments without any are there too. */
  readonly segments: ReadonlyMap<string, ReadonlySet<string>>;
  /** How many events are recorded of each episode under way. */
  readonly counts: ReadonlyMap<string, number>;
  /** The events of an episode; empty when there are none. */
  read(episodeId: string): Promise<readonly EpisodeEvent[]>;
};

/**
 * Checks every line and skips episodes that have ended. The last line of a segment may be cut off or broken: its process
 * died while it wrote. Throws a `ConfigurationError` for any other line that is broken or missing, with its place.
 */
export async function readJournal(
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
      "Restore the file. If it is lost, cut the file there and remove the segments after it: their episodes then go on from an earlier turn.",
  );
}

function missingLine(
  file: string,
  line: { readonly number: number; readonly episodeId: string },
  wanted: number,
): ConfigurationError {
  return new ConfigurationError(
    `Cannot read the journal "${file}": event ${wanted} of episode "${line.episodeId}" is missing before line ${line.number}. ` +
      "Restore the segments of the journal; if they are lost, begin a new run.",
  );
}
