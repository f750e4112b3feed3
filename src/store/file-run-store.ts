// A run as a folder: `run.json` (description of the run), `episodes.jsonl` (one episode per line,
// in the order they ended), `index.jsonl` (their summaries and places), `groups.jsonl` (one decided
// group per line), `samples.jsonl` (one training row per line; only when groups come with rows) and
// `journal/` (events of the episodes in flight). All files except `run.json` only grow; `run.json`
// is replaced as a whole. Where several processes run episodes, each writes a shard
// (`shard-store.ts`), and the process that decides writes the rest.

import { existsSync } from "node:fs";
import { copyFile, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolder } from "../system/make-folder.ts";
import { ConfigurationError, type Episode, type EpisodeEvent, type GroupRecord, messageOf } from "../core/index.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { unchanged } from "../lib/text.ts";
import { AppendFile, endLine, BatchQueue } from "./lines.ts";
import { ByteWriter, OutgoingLines } from "./byte-writer.ts";
import { Disk, type DiskPatience } from "./disk.ts";
import {
  type EpisodeJournal,
  runFiles,
  runFormat,
  type DecidedGroup,
  type RunStore,
  type TornLine,
  closedStore,
  storeFault,
  unbegunStore,
} from "./run-store.ts";
import type { EpisodeFiles } from "./episode-files.ts";
import { type EpisodePlace, summaryOf, type UnnumberedSummary, writeSummary } from "./episode-index.ts";
import { addEpisodeLine, storedGroup } from "./records.ts";
import type { RecoveredFiles } from "./recover-run.ts";
import { RunJournal, type RunJournalOptions } from "./journal.ts";
import { lockRun, type RunLock } from "./run-lock.ts";

/** Options of a store; `fsync` and `segmentBytes` are those of the journal. */
export type FileRunStoreOptions = Pick<RunJournalOptions, "fsync" | "segmentBytes" | "clock"> & {
  /** Time that writes wait for a full disk. Default: only one attempt. */
  readonly patience?: DiskPatience;
  /** Removes secrets from everything that is written. Default: none are removed. */
  readonly redact?: (text: string) => string;
  /**
   * True: episodes may be stored in shards. A run that already has shards keeps them. Default:
   * false.
   */
  readonly hasShards?: boolean;
};

/** A store with a journal. */
export type FileRunStore = RunStore &
  EpisodeJournal & {
    /** The disk below the store: its current fault, and the writes that wait for it. */
    readonly disk: Disk;
    /**
     * Counts an episode whose line another process has written to its shard and synced to the disk.
     * Resolves with false for an id that is already recorded: the first one counts. Only for a
     * store with shards.
     */
    appendIndexed(summary: UnnumberedSummary): Promise<boolean>;
  };

/** A run that resumes. Call `begin` of the store next. */
export type ResumedRun = {
  readonly store: FileRunStore;
  /** Episodes that ended. */
  readonly ended: ReadonlySet<string>;
  /** Episodes that have begun and not ended. */
  readonly inFlight: ReadonlySet<string>;
  readonly decided: ReadonlyMap<string, GroupRecord>;
  /** Ends of unfinished lines; they are cut. */
  readonly torn: readonly TornLine[];
  /** Unlocks the unchanged folder, in place of `begin`. */
  release(): Promise<void>;
};

/**
 * A store for a new run folder; nothing is touched before `begin`, which refuses a folder that
 * exists and is not empty.
 */
export function createFileRunStore(folder: string, options: FileRunStoreOptions = {}): FileRunStore {
  return new FolderStore(folder, options, null);
}

/**
 * Resumes the run of a folder whose process died or stopped. Throws a `ConfigurationError` when
 * another process uses the folder, its format differs, or a line is corrupted; nothing is changed
 * before `begin`, which then replaces the manifest.
 */
export async function resumeFileRunStore(folder: string, options: FileRunStoreOptions = {}): Promise<ResumedRun> {
  const lock = await lockRun(folder, join(folder, runFiles.lock));
  try {
    const { hasShards, openRunFolder } = await import("./run-folder.ts");
    const { recoverFiles } = await import("./recover-run.ts");
    const manifest = await openRunFolder(folder).manifest();
    const files = await recoverFiles(folder, hasShards(manifest));
    return {
      store: new FolderStore(folder, options, { files, lock }),
      ended: new Set(files.episodes.keys()),
      inFlight: new Set(files.journal.counts.keys()),
      decided: files.groups,
      torn: files.torn,
      release: () => lock.release(),
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

const draftName = `${runFiles.manifest}.new`;
/** Files that may exist before a run has begun. */
const unbegun: readonly string[] = [
  ...[runFiles.episodes, runFiles.index, runFiles.groups, runFiles.samples, draftName],
];

/** A record that waits to be written. */
type Result =
  | {
      readonly type: "episode";
      readonly summary: Omit<UnnumberedSummary, "place">;
      /** Length of the line in bytes, line end included. */
      readonly length: number;
      readonly crc32: string;
    }
  | { readonly type: "indexed"; readonly summary: UnnumberedSummary }
  | { readonly type: "group"; readonly group: GroupRecord; readonly rows: Buffer };

type OpenFiles = {
  readonly episodes: AppendFile;
  readonly index: AppendFile;
  readonly groups: AppendFile;
  /** `null` as long as no group has come with rows. */
  samples: AppendFile | null;
  readonly journal: RunJournal;
  readonly lock: RunLock;
};

type Recovered = { readonly files: RecoveredFiles; readonly lock: RunLock };

class FolderStore implements FileRunStore {
  readonly location: string;
  readonly disk: Disk;
  readonly #options: FileRunStoreOptions;
  readonly #redact: (text: string) => string;
  readonly #recovered: Recovered | null;
  #files: OpenFiles | null = null;
  #closing: Promise<void> | null = null;
  /** Places of the lines of ended episodes. */
  readonly #places: Map<string, EpisodePlace>;
  readonly #queue = new BatchQueue<Result>((batch) => this.#write(batch));
  /** Lines of episodes. */
  readonly #lines = new OutgoingLines();
  readonly #hasShards: boolean;
  /** Number of lines of the index. */
  #indexed: number;

  constructor(folder: string, options: FileRunStoreOptions, recovered: Recovered | null) {
    this.location = folder;
    this.disk = new Disk(folder, { ...options.patience, ...(options.clock && { clock: options.clock }) });
    this.#options = options;
    this.#redact = options.redact ?? unchanged;
    this.#recovered = recovered;
    this.#places = new Map(recovered?.files.episodes);
    this.#hasShards = (options.hasShards ?? false) || (recovered?.files.hasShards ?? false);
    this.#indexed = recovered?.files.index.lines ?? 0;
  }

  async begin(manifest: JsonObject): Promise<void> {
    if (this.#recovered === null) await this.#takePlace();
    const lock = this.#recovered?.lock ?? (await lockRun(this.location, this.#path("lock")));
    const opened: AppendFile[] = [];
    try {
      if (this.#recovered === null) {
        // The lock is held, so no other process can have begun here.
        await this.#takePlace();
        for (const name of unbegun) await rm(join(this.location, name), { force: true });
      }
      await this.#guard("begin a run", async () => {
        const hold = (file: AppendFile): AppendFile => {
          opened.push(file);
          return file;
        };
        const episodes = hold(await this.#open("episodes"));
        const index = hold(await this.#openIndex());
        const groups = hold(await this.#open("groups"));
        const hasSamples = this.#recovered !== null && existsSync(this.#path("samples"));
        const samples = hasSamples ? hold(await this.#open("samples")) : null;
        // Written last, so that a folder with a manifest is complete.
        await this.#replaceManifest(manifest);
        const state = this.#recovered?.files.journal ?? { segments: new Map(), counts: new Map() };
        const journal = new RunJournal(this.#path("journal"), state, {
          ...this.#options,
          redact: this.#redact,
          disk: this.disk,
          beforeRemoval: () => episodes.sync(),
        });
        this.#files = { episodes, index, groups, samples, lock, journal };
      });
    } catch (error) {
      for (const file of opened) await file.close();
      await lock.release();
      throw error;
    }
  }

  async record(episodeId: string, event: EpisodeEvent): Promise<void> {
    const { journal } = this.#openFiles();
    await this.#guard(`record an event of episode "${episodeId}"`, () => journal.record(episodeId, event));
  }

  async kept(episodeId: string): Promise<Episode | null> {
    const place = this.#places.get(episodeId);
    if (place === undefined) return null;
    return this.#guard(`read episode "${episodeId}"`, async () => {
      const files = await this.#episodeFiles();
      try {
        return await files.episode(episodeId, place);
      } finally {
        await files.close();
      }
    });
  }

  async #episodeFiles(): Promise<EpisodeFiles> {
    return new (await import("./episode-files.ts")).EpisodeFiles(this.location);
  }

  async recorded(episodeId: string): Promise<readonly EpisodeEvent[]> {
    const recovered = this.#recovered?.files.journal;
    if (recovered === undefined) return [];
    return this.#guard(`read the events of episode "${episodeId}"`, () => recovered.read(episodeId));
  }

  async append(episode: Episode): Promise<void> {
    const { journal } = this.#openFiles();
    await this.#guard(`store episode "${episode.id}"`, async () => {
      // Computed first, because an episode must not be refused once its line is waiting.
      const summary = summaryOf(episode);
      await this.#queue.add({ type: "episode", summary, ...addEpisodeLine(this.#lines, episode, this.#redact) });
      await journal.forget(episode.id);
    });
  }

  async appendIndexed(summary: UnnumberedSummary): Promise<boolean> {
    const { journal } = this.#openFiles();
    const { id, place } = summary;
    if (!this.#hasShards || place.shard === null) {
      throw new TypeError(`Cannot record episode "${id}" of another process: it names no shard, or the run has none.`);
    }
    if (this.#places.has(id)) return false;
    this.#places.set(id, place);
    await this.#guard(`record episode "${id}"`, () => this.#queue.add({ type: "indexed", summary }));
    // The episode began in a process without shards, which recorded its events in the journal of
    // the run.
    if (this.#recovered?.files.journal.counts.has(id) === true) {
      await this.#guard(`end the journal of episode "${id}"`, () => journal.forget(id));
    }
    return true;
  }

  async appendGroup({ group, sampleLines }: DecidedGroup): Promise<void> {
    this.#openFiles();
    const rows = Buffer.from(this.#redact(sampleLines.map((line) => `${line}\n`).join("")));
    await this.#guard(`store group "${group.groupId}"`, () => this.#queue.add({ type: "group", group, rows }));
  }

  async close(manifest: JsonObject): Promise<void> {
    if (this.#files === null) throw unbegunStore(this.location);
    const files = this.#files;
    this.#closing ??= this.#guard("close the run", () => this.#close(files, manifest));
    await this.#closing;
  }

  async #write(batch: readonly Result[]): Promise<void> {
    const episodeLines = this.#lines.take();
    const files = this.#files!;
    const { episodes, index, groups } = files;
    let { size: offset } = episodes;
    if (episodeLines.length > 0) await episodes.append(episodeLines);
    const indexLines = new ByteWriter();
    for (const result of batch) {
      if (result.type === "group") continue;
      const place =
        result.type === "indexed"
          ? result.summary.place
          : // The length of a line without its end.
            { shard: null, offset, length: result.length - 1, crc32: result.crc32 };
      if (result.type === "episode") offset += result.length;
      const summary = { ...result.summary, number: ++this.#indexed, place };
      this.#places.set(summary.id, summary.place);
      writeSummary(indexLines, summary, this.#redact);
    }
    // Written after the episodes, so that a reader who finds a line of the index finds the episode.
    if (indexLines.length > 0) await index.append(indexLines.view());
    const decided = batch.filter((result) => result.type === "group");
    if (decided.length === 0) return;
    let samplesEnd = files.samples?.size ?? 0;
    const groupLines = new ByteWriter();
    for (const { group, rows } of decided) {
      const start = groupLines.length;
      storedGroup.write(groupLines, { ...group, samplesEnd: (samplesEnd += rows.length) });
      groupLines.redact(start, this.#redact);
      endLine(groupLines, start);
    }
    const rows = Buffer.concat(decided.map((result) => result.rows));
    if (rows.length > 0) {
      files.samples ??= await this.disk.repeat(() => AppendFile.create(this.#path("samples"), this.disk));
      await files.samples.append(rows);
      if (this.#options.fsync === "always") await files.samples.sync();
    }
    await groups.append(groupLines.view());
  }

  async #close({ episodes, index, samples, groups, journal, lock }: OpenFiles, manifest: JsonObject): Promise<void> {
    const files = [episodes, index, samples, groups];
    try {
      await this.#queue.idle();
      await journal.close();
      for (const file of files) await file?.sync();
      // After a fault the manifest is worth one more attempt, because it states why the run ended.
      if (this.disk.isFinal) await this.#replaceManifest(manifest);
      else await this.disk.repeat(() => this.#replaceManifest(manifest));
    } finally {
      for (const file of files) await file?.close();
      await lock.release();
    }
  }

  #openFiles(): OpenFiles {
    if (this.#files === null) throw unbegunStore(this.location);
    if (this.#closing !== null) throw closedStore(this.location);
    return this.#files;
  }

  #open(file: "episodes" | "groups" | "samples"): Promise<AppendFile> {
    const path = this.#path(file);
    return this.#recovered === null
      ? AppendFile.create(path, this.disk)
      : AppendFile.reopen(path, this.#recovered.files.sizes[file], this.disk);
  }

  /**
   * Completes the index of a run that resumes: adds its own episodes that the earlier process had
   * no time to index.
   */
  async #openIndex(): Promise<AppendFile> {
    const path = this.#path("index");
    if (this.#recovered === null) return AppendFile.create(path, this.disk);
    const { size, kept, missing } = this.#recovered.files.index;
    if (kept.length > 0 || missing.size > 0 || !existsSync(path)) {
      const lines = new ByteWriter();
      for (const summary of kept) writeSummary(lines, { ...summary, number: ++this.#indexed }, this.#redact);
      const files = await this.#episodeFiles();
      try {
        for (const [id, place] of missing) {
          const summary = summaryOf(await files.episode(id, place));
          writeSummary(lines, { number: ++this.#indexed, ...summary, place }, this.#redact);
        }
      } finally {
        await files.close();
      }
      // Written to a separate file first: cutting the old one would lose lines of shards if the
      // process were killed.
      const draft = `${path}.new`;
      await rm(draft, { force: true });
      if (size > 0) await copyFile(path, draft);
      const file = size > 0 ? await AppendFile.reopen(draft, size) : await AppendFile.create(draft);
      await file.append(lines.view());
      await file.sync();
      await file.close();
      await rename(draft, path);
      return AppendFile.reopen(path, size + lines.length, this.disk);
    }
    return AppendFile.reopen(path, size, this.disk);
  }

  /**
   * Creates the folder, which must be empty or contain only empty files left by a process that was
   * killed before it began.
   */
  async #takePlace(): Promise<void> {
    let taken: string | undefined;
    try {
      await makeFolder(this.location);
      // The lock is checked next; a lock left by a killed process is taken over.
      const names = (await readdir(this.location)).filter((name) => !name.startsWith(runFiles.lock));
      const isUnbegun = async (name: string): Promise<boolean> =>
        name === draftName || (unbegun.includes(name) && (await stat(join(this.location, name))).size === 0);
      if (!(await Promise.all(names.map(isUnbegun))).every(Boolean)) taken = names[0];
    } catch (error) {
      throw new ConfigurationError(
        `Cannot create the run folder "${this.location}": ${messageOf(error)}; name another with --out.`,
        { cause: error },
      );
    }
    if (taken === undefined) return;
    throw new ConfigurationError(
      `Cannot start a run in "${this.location}": the folder exists and is not empty (it holds "${taken}"); ` +
        "name another folder with --out, empty it, or resume the run in it with --resume.",
    );
  }

  async #guard<T>(task: string, action: () => Promise<T>): Promise<T> {
    try {
      return await action();
    } catch (error) {
      throw storeFault(task, this.location, error);
    }
  }

  /** Writes a separate file and renames it, so that a reader never finds half a manifest. */
  async #replaceManifest(manifest: JsonObject): Promise<void> {
    // Both come first for people, and are always ours, even if the manifest has other values.
    const ours = [
      ["format", runFormat],
      ["sharded", this.#hasShards],
    ] as const;
    const whole = new Map<string, JsonValue>([...ours, ...manifest, ...ours]);
    const draft = join(this.location, draftName);
    try {
      await writeFile(draft, this.#redact(`${dumpJson(whole, { indent: 2 })}\n`));
      await rename(draft, this.#path("manifest"));
    } catch (error) {
      await rm(draft, { force: true }).catch(() => undefined);
      throw error;
    }
  }

  #path(file: keyof typeof runFiles): string {
    return join(this.location, runFiles[file]);
  }
}
