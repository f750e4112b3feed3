// The journal of the episodes in flight, written in batches: thousands of episodes share few
// writes, and few syncs. One event is a line `["<crc32>","<episode id>",<number>,<event>]`. The
// checksum (CRC-32, eight hexadecimal digits, over the bytes between the first comma and the last
// bracket) finds lines that a disk or an editor has changed; the number counts the events of the
// episode from 0 and finds missing lines.
//
// Its files are numbered segments below `journal/`, each of which only grows. A segment whose
// episodes have all ended is superseded by `episodes.jsonl` and removed, so that the size of the
// journal follows the episodes in flight. A process never writes into another process's segment:
// the torn end of a killed process stays in its file.

import { mkdir, open, readdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";

import type { EpisodeEvent } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { systemCode } from "../lib/system-error.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { type ByteWriter, OutgoingLines } from "./byte-writer.ts";
import { Disk } from "./disk.ts";
import { AppendFile, checksum, BatchQueue } from "./lines.ts";
import { eventFromJson, writeEvent } from "./records.ts";

/** Place of the checksum, after bracket and quote. */
const checksumStart = 2;
const bracket = 0x5d;
/** Bytes before the episode's id: bracket, quoted checksum, comma. */
const bodyStart = 12;
const quote = 0x22;
const backslash = 0x5c;

type JournalEntry = { readonly episodeId: string; readonly number: number; readonly event: EpisodeEvent };

/** Writes a line, line end included. `redact` is applied before the checksum is made. */
export function writeJournalLine(
  writer: ByteWriter,
  { episodeId, number, event }: JournalEntry,
  redact: (text: string) => string,
): void {
  const start = writer.length;
  writer.ascii('["00000000",');
  writer.quoted(episodeId);
  writer.ascii(`,${number},`);
  writeEvent(writer, event);
  writer.redact(start + bodyStart, redact);
  writer.view(start).write(checksum(writer.view(start + bodyStart)), checksumStart, "latin1");
  writer.ascii("]\n");
}

/** Episode id and number of a line, without reading the event; `null` for a corrupted line. */
export function journalLineHead(line: Buffer): { readonly episodeId: string; readonly number: number } | null {
  const body = line.subarray(bodyStart, -1);
  if (line.toString("latin1", 0, bodyStart) !== `["${checksum(body)}",` || line.at(-1) !== bracket) return null;
  let end = 1;
  while (end < body.length && body[end] !== quote) end += body[end] === backslash ? 2 : 1;
  const numberEnd = body.indexOf(",", end + 2);
  // The checksum is right, so the JSON is valid.
  const episodeId = JSON.parse(body.toString("utf8", 0, end + 1)) as string;
  return { episodeId, number: Number(body.toString("latin1", end + 2, numberEnd)) };
}

/** The event of a line whose head was read. Throws a plain error that names the invalid field. */
export function journalLineEvent(line: Buffer, where: string): EpisodeEvent {
  const record = parseJson(line.toString("utf8"));
  return eventFromJson(Array.isArray(record) ? (record[3] ?? null) : null, where);
}

const digits = 8;

/** Files of the segments, in the order they were written. */
export async function listSegments(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .filter((name) => /^\d+\.jsonl$/.test(name))
    .toSorted()
    .map((name) => join(folder, name));
}

/**
 * Syncs a folder: the name of a new file survives a power cut only after that. Systems that do not
 * support this do not need it.
 */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, "r").catch(() => null);
  await handle?.sync().catch(() => undefined);
  await handle?.close().catch(() => undefined);
}

/**
 * Time at which the journal is synced to the disk. "always": before an event counts. A number: at
 * most this many milliseconds later. "never": when the system decides. A killed process loses
 * nothing in any case; only a power cut or a crash of the system can lose unsynced events.
 */
export type FsyncPolicy = "always" | "never" | number;

export type RunJournalOptions = {
  /** Default: 1000. */
  readonly fsync?: FsyncPolicy;
  /** Size in bytes after which a segment is followed by another. Default: 64 MiB. */
  readonly segmentBytes?: number;
  /** Default: the real clock. */
  readonly clock?: Clock;
  readonly redact: (text: string) => string;
  /**
   * Called before a segment is removed; must resolve only when the superseding records are on the
   * disk.
   */
  readonly beforeRemoval: () => Promise<void>;
  /** Disk below the journal. Default: one without patience. */
  readonly disk?: Disk;
};

/**
 * State that earlier processes left: for each segment, the episodes in flight that have events in
 * it; for each episode, its number of events.
 */
export type JournalState = {
  readonly segments: ReadonlyMap<string, ReadonlySet<string>>;
  readonly counts: ReadonlyMap<string, number>;
};

/** An item of the next write; its line is in `#lines`. */
type Entry = { readonly type: "event" | "end"; readonly episodeId: string };

export class RunJournal {
  readonly #folder: string;
  readonly #options: Required<RunJournalOptions>;
  /** Episodes in flight, by the segments that hold their events. */
  readonly #segments: Map<string, Set<string>>;
  readonly #counts: Map<string, number>;
  readonly #queue = new BatchQueue<Entry>((batch) => this.#write(batch));
  readonly #lines = new OutgoingLines();
  #current: { readonly path: string; readonly file: AppendFile } | null = null;
  #next: number;
  #cancelSync: (() => void) | null = null;
  #syncing: Promise<void> = Promise.resolve();

  constructor(folder: string, { segments, counts }: JournalState, options: RunJournalOptions) {
    this.#folder = folder;
    this.#options = {
      fsync: 1000,
      segmentBytes: 64 * 2 ** 20,
      clock: systemClock,
      disk: new Disk(folder),
      ...options,
    };
    this.#segments = new Map([...segments].map(([path, episodes]) => [path, new Set(episodes)]));
    this.#next = Math.max(0, ...[...segments.keys()].map((path) => Number(/(?<!\d)(\d+)\.jsonl$/.exec(path)?.[1]))) + 1;
    this.#counts = new Map(counts);
  }

  /** Resolves when the event has left the process, and is on the disk with "always". */
  record(episodeId: string, event: EpisodeEvent): Promise<void> {
    const number = this.#counts.get(episodeId) ?? 0;
    this.#lines.add((writer) => writeJournalLine(writer, { episodeId, number, event }, this.#options.redact));
    this.#counts.set(episodeId, number + 1);
    return this.#queue.add({ type: "event", episodeId });
  }

  /** Forgets the events of an episode that has ended and is stored whole. */
  forget(episodeId: string): Promise<void> {
    this.#counts.delete(episodeId);
    return this.#queue.add({ type: "end", episodeId });
  }

  /** Removes superseded segments; without unfinished episodes the whole journal is removed. */
  async close(): Promise<void> {
    await this.#queue.idle();
    this.#cancelSync?.();
    await this.#syncing;
    await this.#finishCurrent();
    if (this.#segments.size === 0) await rmdir(this.#folder).catch(() => undefined);
  }

  async #write(batch: readonly Entry[]): Promise<void> {
    const lines = this.#lines.take();
    if (lines.length > 0) await this.#append(lines, batch);
    const ended = batch.filter(({ type }) => type === "end");
    if (ended.length === 0) return;
    for (const episodes of this.#segments.values()) for (const { episodeId } of ended) episodes.delete(episodeId);
    await this.#removeSuperseded();
  }

  async #append(lines: Buffer, batch: readonly Entry[]): Promise<void> {
    const { fsync, segmentBytes, clock } = this.#options;
    if (this.#current !== null && this.#current.file.size >= segmentBytes) await this.#finishCurrent();
    const { path, file } = (this.#current ??= await this.#begin());
    const episodes = this.#segments.get(path) ?? new Set<string>();
    this.#segments.set(path, episodes);
    for (const { type, episodeId } of batch) if (type === "event") episodes.add(episodeId);
    await file.append(lines);
    if (fsync === "always") await file.sync();
    if (typeof fsync !== "number") return;
    // The sync runs beside further writes. If it fails, the next call of `record` rejects with its
    // fault.
    this.#cancelSync ??= clock.after(fsync, () => {
      this.#cancelSync = null;
      this.#syncing = (this.#current?.file.sync() ?? Promise.resolve()).catch(() => undefined);
    });
  }

  async #begin(): Promise<{ readonly path: string; readonly file: AppendFile }> {
    const { disk } = this.#options;
    // Creates only this folder: a removed run folder is not created again.
    await disk.repeat(() => mkdir(this.#folder).catch(ignoreExisting));
    const path = join(this.#folder, `${String(this.#next++).padStart(digits, "0")}.jsonl`);
    const file = await disk.repeat(() => AppendFile.create(path, disk));
    if (this.#options.fsync !== "never") await syncFolder(this.#folder);
    return { path, file };
  }

  async #finishCurrent(): Promise<void> {
    if (this.#current === null) return;
    const { file } = this.#current;
    // Cleared first, so that a concurrent sync does not find a file that is being closed.
    this.#current = null;
    if (this.#options.fsync !== "never") await file.sync();
    await file.close();
    await this.#removeSuperseded();
  }

  async #removeSuperseded(): Promise<void> {
    const superseded = [...this.#segments].filter(([path, { size }]) => size === 0 && path !== this.#current?.path);
    if (superseded.length === 0) return;
    await this.#options.beforeRemoval();
    for (const [path] of superseded) {
      await this.#options.disk.repeat(() => rm(path, { force: true }));
      this.#segments.delete(path);
    }
  }
}

function ignoreExisting(error: unknown): void {
  if (systemCode(error) !== "EEXIST") throw error;
}
