// `shards/<name>/` of a run folder: the episodes of one worker, and its journal. A line is on the
// disk before its summary leaves the process; the index of the run decides which lines count. A
// worker that was killed reopens its shard and continues in it.

import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "../system/make-folder.ts";
import { ConfigurationError, type Episode, type EpisodeEvent } from "../core/index.ts";
import { unchanged } from "../lib/text.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { OutgoingLines } from "./byte-writer.ts";
import { EpisodeFiles } from "./episode-files.ts";
import { type EpisodePlace, isShardName, summaryOf, type UnnumberedSummary } from "./episode-index.ts";
import type { FileRunStoreOptions } from "./file-run-store.ts";
import { RunJournal } from "./journal.ts";
import { AppendFile, BatchQueue, readRawLines, sizeOf, validChecksum } from "./lines.ts";
import { addEpisodeLine, episodeFromJson } from "./records.ts";
import { episodeIdOf, readJournal, type RecoveredJournal } from "./recover-run.ts";
import { lockRun, type RunLock } from "./run-lock.ts";
import { closedStore, type EpisodeJournal, runFiles, storeFault } from "./run-store.ts";

/**
 * A shard for one writer. Every rejection is attributed to boundary "store". After a rejection
 * nothing more is written: close the shard and open it again.
 */
export type ShardStore = EpisodeJournal & {
  /** Folder of the shard, which also holds the experts of its episodes. */
  readonly location: string;
  /** Resolves once the episode is on the disk, with its receipt for the process that decides. */
  append(episode: Episode): Promise<UnnumberedSummary>;
  /**
   * The receipt of an episode that this shard holds, for a job that came twice; `null` if it does
   * not hold it.
   */
  receipt(episodeId: string): Promise<UnnumberedSummary | null>;
  /**
   * Takes over the journal of an episode from the shard of a dead worker, on a disk that both can
   * read. Resolves with the number of its events; 0 if nothing is recorded, the journal cannot be
   * read, or this shard has events of the episode itself. A `shard` of `null` takes over from the
   * journal of the run, which an earlier process without shards left.
   */
  adopt(episodeId: string, shard: string | null): Promise<number>;
  close(): Promise<void>;
};

/**
 * Opens the shard of a run folder, or creates it. Rejects with a `ConfigurationError` for a name
 * that cannot be a folder name, and while another process uses the shard.
 */
export async function openShard(
  folder: string,
  name: string,
  options: Omit<FileRunStoreOptions, "hasShards"> = {},
): Promise<ShardStore> {
  if (!isShardName(name)) {
    throw new ConfigurationError(
      `Cannot open shard "${name}": its name is that of a folder; use letters, digits, dots, dashes and underscores, at most 100.`,
    );
  }
  const location = join(folder, runFiles.shards, name);
  await makeFolder(location);
  const lock = await lockRun(location, join(location, runFiles.lock));
  try {
    const file = join(location, runFiles.episodes);
    const places = new Map<string, EpisodePlace>();
    let size = 0;
    if ((await sizeOf(file)) > 0) {
      for await (const { bytes, start } of readRawLines(file, () => undefined)) {
        size = start + bytes.length + 1;
        const crc32 = validChecksum(bytes);
        // A corrupted line does not count: its episode runs again.
        if (crc32 === null) continue;
        places.set(episodeIdOf(bytes, `"${file}"`), { shard: name, offset: start, length: bytes.length, crc32 });
      }
    }
    const journal = await readJournal(join(location, runFiles.journal), { hasEnded: (id) => places.has(id) });
    const episodes = await AppendFile.reopen(file, size);
    return new Shard({ folder, name, places, journal, episodes, lock }, options);
  } catch (error) {
    await lock.release();
    throw error;
  }
}

type OpenedShard = {
  /** The run's folder. */
  readonly folder: string;
  readonly name: string;
  readonly places: Map<string, EpisodePlace>;
  readonly journal: RecoveredJournal;
  readonly episodes: AppendFile;
  readonly lock: RunLock;
};

type Ended = { readonly id: string; readonly length: number; readonly crc32: string };

class Shard implements ShardStore {
  readonly location: string;
  readonly #opened: OpenedShard;
  readonly #redact: (text: string) => string;
  readonly #journal: RunJournal;
  readonly #files: EpisodeFiles;
  readonly #lines = new OutgoingLines();
  readonly #queue = new BatchQueue<Ended>((batch) => this.#write(batch));
  /** Journals of other shards, as they were at the first request. */
  readonly #others = new Map<string | null, Promise<RecoveredJournal>>();
  /** Episodes in flight with events that this process has written. */
  readonly #begun = new Set<string>();
  #closing: Promise<void> | null = null;

  constructor(opened: OpenedShard, options: Omit<FileRunStoreOptions, "hasShards">) {
    const { folder, name, journal, episodes } = opened;
    this.location = join(folder, runFiles.shards, name);
    this.#opened = opened;
    this.#redact = options.redact ?? unchanged;
    this.#files = new EpisodeFiles(folder);
    this.#journal = new RunJournal(join(this.location, runFiles.journal), journal, {
      ...options,
      redact: this.#redact,
      beforeRemoval: () => episodes.sync(),
    });
  }

  async append(episode: Episode): Promise<UnnumberedSummary> {
    this.#refuseClosed();
    const { id } = episode;
    return this.#guard(`store episode "${id}"`, async () => {
      const summary = summaryOf(episode);
      await this.#queue.add({ id, ...addEpisodeLine(this.#lines, episode, this.#redact) });
      await this.#journal.forget(id);
      this.#begun.delete(id);
      return { ...summary, place: this.#opened.places.get(id)! };
    });
  }

  async receipt(episodeId: string): Promise<UnnumberedSummary | null> {
    const place = this.#opened.places.get(episodeId);
    const episode = await this.kept(episodeId);
    return place === undefined || episode === null ? null : { ...summaryOf(episode), place };
  }

  async kept(episodeId: string): Promise<Episode | null> {
    const place = this.#opened.places.get(episodeId);
    if (place === undefined) return null;
    return this.#guard(`read episode "${episodeId}"`, () => this.#files.episode(episodeId, place));
  }

  async record(episodeId: string, event: EpisodeEvent): Promise<void> {
    this.#refuseClosed();
    this.#begun.add(episodeId);
    await this.#guard(`record an event of episode "${episodeId}"`, () => this.#journal.record(episodeId, event));
  }

  async recorded(episodeId: string): Promise<readonly EpisodeEvent[]> {
    return this.#guard(`read the events of episode "${episodeId}"`, async () => {
      // An episode that was released and came again also has events of this process.
      const journal = this.#begun.has(episodeId) ? await this.#readJournal(this.#opened.name) : this.#opened.journal;
      return journal.read(episodeId);
    });
  }

  async adopt(episodeId: string, shard: string | null): Promise<number> {
    this.#refuseClosed();
    const { name, places } = this.#opened;
    if ((shard !== null && !isShardName(shard)) || shard === name || places.has(episodeId)) return 0;
    return this.#guard(
      `take over episode "${episodeId}" from ${shard === null ? "the run" : `shard "${shard}"`}`,
      async () => {
        if ((await this.recorded(episodeId)).length > 0) return 0;
        const other = this.#others.get(shard) ?? this.#readJournal(shard);
        this.#others.set(shard, other);
        // An unreadable journal is not needed: the episode begins again, with the same seed.
        const events = await other.then((journal) => journal.read(episodeId)).catch(() => []);
        for (const event of events) await this.record(episodeId, event);
        return events.length;
      },
    );
  }

  async close(): Promise<void> {
    const { episodes, lock } = this.#opened;
    this.#closing ??= this.#guard("close the shard", async () => {
      try {
        await this.#queue.idle();
        await this.#journal.close();
        await episodes.close();
        await this.#files.close();
      } finally {
        await lock.release();
      }
    });
    await this.#closing;
  }

  async #write(batch: readonly Ended[]): Promise<void> {
    const { episodes, places, name } = this.#opened;
    let { size: offset } = episodes;
    await episodes.append(this.#lines.take());
    // Synced before any receipt: episodes that count must survive a power cut.
    await episodes.sync();
    for (const { id, length, crc32 } of batch) {
      places.set(id, { shard: name, offset, length: length - 1, crc32 });
      offset += length;
    }
  }

  #readJournal(shard: string | null): Promise<RecoveredJournal> {
    const place = shard === null ? this.#opened.folder : join(this.#opened.folder, runFiles.shards, shard);
    const folder = join(place, runFiles.journal);
    return readJournal(folder, { hasEnded: () => false, isLive: true });
  }

  #refuseClosed(): void {
    if (this.#closing !== null) throw closedStore(this.location);
  }

  async #guard<T>(task: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw storeFault(task, this.location, error);
    }
  }
}

/**
 * Episodes in shards that the index does not name: their worker had stored them when the deciding
 * process died. Each once, without aborted ones. Only for a run that no process is writing.
 */
export async function* unindexedEpisodes(
  folder: string,
  ended: ReadonlySet<string>,
): AsyncGenerator<UnnumberedSummary> {
  const found = new Set<string>();
  const names = await readdir(join(folder, runFiles.shards)).catch(() => []);
  for (const shard of names.filter(isShardName).toSorted()) {
    const file = join(folder, runFiles.shards, shard, runFiles.episodes);
    if ((await sizeOf(file)) === 0) continue;
    for await (const { bytes, start } of readRawLines(file, () => undefined)) {
      // A corrupted line does not count: its episode runs again.
      const crc32 = validChecksum(bytes);
      if (crc32 === null) continue;
      const id = episodeIdOf(bytes, `"${file}"`);
      if (ended.has(id) || found.has(id)) continue;
      const episode = episodeFromJson(parseJson(bytes.toString("utf8")), `"${file}" at byte ${start}`);
      if (episode.outcome === "aborted") continue;
      found.add(id);
      const place = { shard, offset: start, length: bytes.length, crc32 };
      yield { ...summaryOf(episode), place };
    }
  }
}

/**
 * Removes journals and locks that killed workers left in the shards of a finished run. Those of a
 * live process are kept.
 */
export async function cleanShards(folder: string): Promise<void> {
  const names = await readdir(join(folder, runFiles.shards)).catch(() => []);
  for (const name of names.filter(isShardName)) {
    const location = join(folder, runFiles.shards, name);
    const lock = await lockRun(location, join(location, runFiles.lock)).catch(() => null);
    if (lock === null) continue;
    await rm(join(location, runFiles.journal), { recursive: true, force: true });
    await lock.release();
  }
}
