// The index of a run folder that has none, or one that does not fit its episodes: made by reading
// the episodes once, and kept outside the run folder, which readers never change. Its last line
// names the file that it belongs to; the index stays valid as long as that file only grows. A cache
// that cannot be written is not a fault.

import { createHash } from "node:crypto";
import { copyFile, readdir, realpath, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder, userCache } from "../system/make-folder.ts";
import type { Episode } from "../core/index.ts";
import { unchanged } from "../lib/text.ts";
import { ByteWriter } from "./byte-writer.ts";
import {
  type EpisodePlace,
  type EpisodeSummary,
  summaryFromPlain,
  summaryOf,
  type UnnumberedSummary,
  writeSummary,
} from "./episode-index.ts";
import { AppendFile, checkLine, readAt, readRawLines } from "./lines.ts";
import { episodeFromJson, parseRecord } from "./records.ts";
import type { TornLine } from "./run-store.ts";

type ScanStart = { readonly start: number; readonly number: number };

/**
 * Summaries of a file of episodes from a byte on; `number` is that of the first. Throws like the
 * reader of a run.
 */
export async function* scanEpisodes(
  file: string,
  { start: from, number: first }: ScanStart,
  onTornLine: (torn: TornLine) => void,
): AsyncGenerator<EpisodeSummary> {
  let number = first;
  for await (const { bytes, start } of readRawLines(file, onTornLine, { start: from })) {
    const place = `line ${number}`;
    const crc32 = checkLine(bytes, { file, place });
    const where = `"${file}" ${place}`;
    const summary = outlineOf(bytes) ?? summaryOf(episodeFromJson(parseRecord(bytes, where), where));
    yield { ...summary, number: number++, place: { shard: null, offset: start, length: bytes.length, crc32 } };
  }
}

/**
 * The summary of a line whose tokens are counted but not decoded, which takes a quarter of the
 * time; `null` if the line has an unexpected form, so that a full read must report the reason.
 */
function outlineOf(line: Buffer): Omit<UnnumberedSummary, "place"> | null {
  try {
    const { turns, grade, ...facts } = JSON.parse(line.toString("utf8")) as PlainLine;
    const counted = turns.map((turn, at) => {
      const { index, parent } = turn;
      if (index !== at || !(parent === null || (Number.isInteger(parent) && parent >= 0 && parent < at)))
        throw misfit();
      return {
        ...turn,
        observationTokens: countOf(turn.observationTokens),
        sampledTokens: countOf(turn.sampledTokens),
      };
    });
    const graded = grade === null ? null : { ...grade, info: new Map(Object.entries(grade.info)) };
    // This form has every field that a summary is made of; the check of the summary validates their
    // values.
    const summary = summaryOf({ ...facts, trajectory: { turns: counted }, grade: graded } as unknown as Episode);
    return summaryFromPlain({ ...summary, place: noPlace }, "an episode");
  } catch {
    return null;
  }
}

type Packed = { readonly base64: string };
type PlainLine = {
  readonly turns: readonly {
    readonly index: number;
    readonly parent: number | null;
    readonly observationTokens: Packed;
    readonly sampledTokens: Packed;
  }[];
  readonly grade: { readonly info: object } | null;
};

const noPlace: EpisodePlace = { shard: null, offset: 0, length: 0, crc32: "00000000" };

/** Length of a packed array, the only part of it that a summary needs. */
function countOf({ base64 }: Packed): { readonly length: number } {
  const padding = base64.endsWith("==") ? 2 : base64.endsWith("=") ? 1 : 0;
  const length = ((base64.length / 4) * 3 - padding) / 4;
  if (!Number.isInteger(length)) throw misfit();
  return { length };
}

function misfit(): Error {
  return new Error("The line is not that of an episode.");
}

/** A file of summaries: the lines before byte `end`, the last of which is that of episode `count`. */
export type IndexFile = { readonly path: string; readonly end: number; readonly count: number };

/** The last line of a cached index. */
type Footer = {
  /** Version of the summary's layout. */
  readonly version: number;
  readonly file: string;
  readonly size: number;
  readonly modifiedMs: number;
  /** End of the last whole line that was read, and the bytes before it in hexadecimal. */
  readonly end: number;
  readonly before: string;
  readonly count: number;
};

const cacheVersion = 2;
const comparedBytes = 64;
const mostCached = 200;
const longestFooter = 16_384;
const writtenAtOnce = 1 << 20;
let drafts = 0;

/**
 * Folder of this user's caches, or the one named by the environment variable
 * TRAINABLE_AGENTS_CACHE.
 */
export function userCacheFolder(): string {
  return userCache("run-index");
}

/**
 * The index of a file of episodes, made if no existing one fits. `null` if it cannot be cached.
 * Throws like `scanEpisodes`.
 */
export async function cachedIndex(
  file: string,
  {
    folder,
    isBroken,
  }: { readonly folder: string; /** True: the cached index is not used. */ readonly isBroken: boolean },
): Promise<IndexFile | null> {
  const place = await realpath(file);
  const path = join(folder, `${createHash("sha256").update(place).digest("hex").slice(0, 32)}.jsonl`);
  const { size, mtimeMs: modifiedMs } = await stat(file);
  const facts = { version: cacheVersion, file: place, size, modifiedMs };
  const old = isBroken ? null : await readFooter(path, facts).catch(() => null);
  if (old?.footer.size === size) {
    const now = new Date();
    await utimes(path, now, now).catch(() => undefined);
    return { path, end: old.start, count: old.footer.count };
  }
  const draft = `${path}.${process.pid}-${drafts++}`;
  try {
    const index = await kept(async () => {
      await makeFolder(folder, 0o700);
      if (old === null) return AppendFile.create(draft);
      await copyFile(path, draft);
      return AppendFile.reopen(draft, old.start);
    });
    let [end, count] = [old?.footer.end ?? 0, old?.footer.count ?? 0];
    try {
      const writer = new ByteWriter();
      const flush = async (): Promise<void> => {
        await kept(() => index.append(writer.view()));
        writer.cut(0);
      };
      for await (const summary of scanEpisodes(file, { start: end, number: count + 1 }, () => undefined)) {
        writeSummary(writer, summary, unchanged);
        end = summary.place.offset + summary.place.length + 1;
        count = summary.number;
        if (writer.length > writtenAtOnce) await flush();
      }
      await flush();
      const start = index.size;
      const footer: Footer = { ...facts, end, before: await bytesBefore(file, end), count };
      writer.text(`${JSON.stringify(footer)}\n`);
      await flush();
      await kept(async () => {
        await rename(draft, path);
        await removeOldest(folder);
      });
      return { path, end: start, count };
    } finally {
      await index.close();
    }
  } catch (error) {
    await rm(draft, { force: true }).catch(() => undefined);
    if (error instanceof CacheFault) return null;
    throw error;
  }
}

/** The cache folder is full or not writable. */
class CacheFault extends Error {}

async function kept<T>(action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (cause) {
    throw new CacheFault("Cannot keep an index.", { cause });
  }
}

/** The last line of a cached index that still fits its file, and its place; otherwise `null`. */
async function readFooter(
  path: string,
  facts: Pick<Footer, "version" | "file" | "size" | "modifiedMs">,
): Promise<{ readonly footer: Footer; readonly start: number } | null> {
  const { size } = await stat(path);
  const bytes = await readAt(path, Math.max(0, size - longestFooter), Math.min(size, longestFooter));
  const lineStart = bytes.lastIndexOf(0x0a, -2) + 1;
  const footer = JSON.parse(bytes.toString("utf8", lineStart)) as Footer;
  const { version, file, modifiedMs } = facts;
  const isOf = footer.version === version && footer.file === file;
  const hasGrown = facts.size > footer.size || (facts.size === footer.size && modifiedMs === footer.modifiedMs);
  if (!isOf || !hasGrown || footer.before !== (await bytesBefore(file, footer.end))) return null;
  return { footer, start: size - bytes.length + lineStart };
}

async function bytesBefore(file: string, end: number): Promise<string> {
  const start = Math.max(0, end - comparedBytes);
  return (await readAt(file, start, end - start)).toString("hex");
}

async function removeOldest(folder: string): Promise<void> {
  const names = await readdir(folder);
  if (names.length <= mostCached) return;
  const times = await Promise.all(
    names.map(async (name) => ({ name, used: (await stat(join(folder, name)).catch(() => null))?.mtimeMs ?? 0 })),
  );
  const oldest = times.toSorted((one, other) => one.used - other.used).slice(0, names.length - mostCached);
  for (const { name } of oldest) await rm(join(folder, name), { force: true });
}
