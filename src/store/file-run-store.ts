// A run as a folder: `run.json` (what the run is), `episodes.jsonl` (one episode a line, in the order they ended),
// `groups.jsonl` (one decided group a line), `samples.jsonl` (one training row a line; only when groups come with rows) and
// `journal/` (events of the episodes in flight). All but `run.json` only grow; that one is replaced whole.

import { existsSync } from "node:fs";
import { mkdir, open, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, type Episode, type EpisodeEvent, type GroupRecord } from "../core/index.ts";
import type { Clock } from "../lib/clock.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { unchanged } from "../lib/text.ts";
import { AppendFile, checkLine, endLine, BatchQueue } from "./lines.ts";
import { ByteWriter, OutgoingLines } from "./byte-writer.ts";
import { episodeFromJson } from "./records.ts";
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
import { writeEpisode } from "./records.ts";
import { storedGroup } from "./records.ts";
import { recoverFiles, type RecoveredFiles } from "./recover-run.ts";
import { checkResumable, openRunFolder } from "./run-folder.ts";
import { type FsyncPolicy, RunJournal } from "./journal.ts";
import { lockRun, type RunLock } from "./run-lock.ts";

export type FileRunStoreOptions = {
  /** Removes secrets from everything that is written. Default: nothing is removed. */
  readonly redact?: (text: string) => string;
  /** Of the journal. Default: 1000. */
  readonly fsync?: FsyncPolicy;
  /** How large a file of the journal grows before another is begun. Default: 64 MiB. */
  readonly segmentBytes?: number;
  /** Default: the real clock. */
  readonly clock?: Clock;
};

/** A store that journals, too. */
export type FileRunStore = RunStore & EpisodeJournal;

/** A run that resumes. Call `begin` of the store next. */
export type ResumedRun = {
  readonly store: FileRunStore;
  /** Episodes that ended. */
  readonly ended: ReadonlySet<string>;
  /** Episodes that have begun and not ended. */
  readonly inFlight: ReadonlySet<string>;
  readonly decided: ReadonlyMap<string, GroupRecord>;
  /** Ends of lines that were being written; they are cut. */
  readonly torn: readonly TornLine[];
  /** Unlocks the folder as it was, in place of `begin`. */
  release(): Promise<void>;
};

/** A run folder to be made; nothing is touched before `begin`, which refuses a folder that exists and is not empty. */
export function createFileRunStore(folder: string, options: FileRunStoreOptions = {}): FileRunStore {
  return new FolderStore(folder, options, null);
}

/**
 * The run of a folder whose process died or stopped. Throws a `ConfigurationError` when another process uses the folder, its
 * format is another one, or a line is not what was written; nothing is changed before `begin`, which then replaces the manifest.
 */
export async function resumeFileRunStore(folder: string, options: FileRunStoreOptions = {}): Promise<ResumedRun> {
  const lock = await lockRun(folder, join(folder, runFiles.lock));
  try {
    checkResumable(await openRunFolder(folder).manifest(), folder);
    const files = await recoverFiles(folder);
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
/** What is there before a run has begun. */
const unbegun: readonly string[] = [runFiles.episodes, runFiles.groups, runFiles.samples, draftName];

/** What waits to be written. */
type Result =
  | { readonly type: "episode"; readonly id: string; readonly length: number }
  | { readonly type: "group"; readonly group: GroupRecord; readonly rows: Buffer };

type OpenFiles = {
  readonly episodes: AppendFile;
  readonly groups: AppendFile;
  /** `null`: no group has come with rows. */
  samples: AppendFile | null;
  readonly journal: RunJournal;
  readonly lock: RunLock;
};

class FolderStore implements RunStore, EpisodeJournal {
  readonly location: string;
  readonly #options: FileRunStoreOptions;
  readonly #redact: (text: string) => string;
  readonly #recovered: { readonly files: RecoveredFiles; readonly lock: RunLock } | null;
  #files: OpenFiles | null = null;
  #closing: Promise<void> | null = null;
  /** Where the lines of ended episodes stand. */
  readonly #places: Map<string, { readonly start: number; readonly length: number }>;
  readonly #queue = new BatchQueue<Result>((batch) => this.#write(batch));
  /** Of episodes. */
  readonly #lines = new OutgoingLines();

  constructor(
    folder: string,
    options: FileRunStoreOptions,
    recovered: { readonly files: RecoveredFiles; readonly lock: RunLock } | null,
  ) {
    this.location = folder;
    this.#options = options;
    this.#redact = options.redact ?? unchanged;
    this.#recovered = recovered;
    this.#places = new Map(recovered?.files.episodes);
  }

  async begin(manifest: JsonObject): Promise<void> {
    if (this.#recovered === null) await this.#takePlace();
    const lock = this.#recovered?.lock ?? (await lockRun(this.location, this.#path("lock")));
    const begin = async (): Promise<void> => {
      const files = {
        episodes: await this.#open("episodes"),
        groups: await this.#open("groups"),
        samples: await this.#openSamples(),
      };
      // Last, so that a folder with a manifest has everything.
      await this.#replaceManifest(manifest);
      this.#files = { ...files, lock, journal: this.#journal(files.episodes) };
    };
    try {
      if (this.#recovered === null) await this.#removeUnbegun();
      await this.#guard("begin a run", begin);
    } catch (error) {
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
    const file = this.#path("episodes");
    const handle = await open(file, "r");
    try {
      const { buffer } = await handle.read(Buffer.alloc(place.length), 0, place.length, place.start);
      const at = `at byte ${place.start}`;
      checkLine(buffer, { file, place: at, format: runFormat });
      return episodeFromJson(parseJson(buffer.toString("utf8")), `"${file}" ${at}`);
    } catch (error) {
      throw storeFault(`read episode "${episodeId}"`, this.location, error);
    } finally {
      await handle.close();
    }
  }

  async recorded(episodeId: string): Promise<readonly EpisodeEvent[]> {
    try {
      return (await this.#recovered?.files.journal.read(episodeId)) ?? [];
    } catch (error) {
      throw storeFault(`read the events of episode "${episodeId}"`, this.location, error);
    }
  }

  async append(episode: Episode): Promise<void> {
    const { journal } = this.#openFiles();
    await this.#guard(`store episode "${episode.id}"`, async () => {
      const length = this.#lines.add((writer) => {
        const start = writer.length;
        writeEpisode(writer, episode);
        writer.redact(start, this.#redact);
        endLine(writer, start);
      });
      await this.#queue.add({ type: "episode", id: episode.id, length });
      await journal.forget(episode.id);
    });
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
    const { episodes, groups } = files;
    const ended = batch.filter((result) => result.type === "episode");
    if (ended.length > 0) {
      let { size: start } = episodes;
      await episodes.append(episodeLines);
      // Places are those of lines without their ends.
      for (const { id, length } of ended) {
        this.#places.set(id, { start, length: length - 1 });
        start += length;
      }
    }
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
      files.samples ??= await AppendFile.create(this.#path("samples"));
      await files.samples.append(rows);
      if (this.#options.fsync === "always") await files.samples.sync();
    }
    await groups.append(groupLines.view());
  }

  async #close({ episodes, samples, groups, journal, lock }: OpenFiles, manifest: JsonObject): Promise<void> {
    try {
      await this.#queue.idle();
      await journal.close();
      for (const file of [episodes, samples, groups]) {
        await file?.sync();
        await file?.close();
      }
      await this.#replaceManifest(manifest);
    } finally {
      await lock.release();
    }
  }

  #openFiles(): OpenFiles {
    if (this.#files === null) throw unbegunStore(this.location);
    if (this.#closing !== null) throw closedStore(this.location);
    return this.#files;
  }

  async #openSamples(): Promise<AppendFile | null> {
    return this.#recovered !== null && existsSync(this.#path("samples")) ? this.#open("samples") : null;
  }

  #open(file: "episodes" | "groups" | "samples"): Promise<AppendFile> {
    const path = this.#path(file);
    return this.#recovered === null
      ? AppendFile.create(path)
      : AppendFile.reopen(path, this.#recovered.files.sizes[file]);
  }

  #journal(episodes: AppendFile): RunJournal {
    const { fsync = 1000, segmentBytes = 64 * 2 ** 20, clock } = this.#options;
    const state = this.#recovered?.files.journal ?? { segments: new Map(), counts: new Map() };
    return new RunJournal(this.#path("journal"), state, {
      fsync,
      segmentBytes,
      redact: this.#redact,
      beforeRemoval: () => episodes.sync(),
      ...(clock === undefined ? {} : { clock }),
    });
  }

  async #takePlace(): Promise<void> {
    let taken: readonly string[];
    try {
      await mkdir(this.location, { recursive: true });
      // The lock is examined next; one that a killed process left is taken over.
      const names = (await readdir(this.location)).filter((name) => !name.startsWith(runFiles.lock));
      taken = (await this.#isUnbegun(names)) ? [] : names;
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new ConfigurationError(
        `Cannot make the run folder "${this.location}": ${reason}; name another with --out.`,
        { cause: error },
      );
    }
    if (taken.length > 0) {
      throw new ConfigurationError(
        `Cannot start a run in "${this.location}": the folder exists and is not empty (it holds "${taken[0]}"); ` +
          "name another folder with --out, empty it, or resume the run in it with --resume.",
      );
    }
  }

  /** A process was killed while it began here: files without a line, and no manifest yet. */
  async #isUnbegun(names: readonly string[]): Promise<boolean> {
    for (const name of names) {
      if (!unbegun.includes(name) || (name !== draftName && (await stat(join(this.location, name))).size > 0)) {
        return false;
      }
    }
    return true;
  }

  /** With the lock held: no other process can have begun here. */
  async #removeUnbegun(): Promise<void> {
    await this.#takePlace();
    for (const name of unbegun) await rm(join(this.location, name), { force: true });
  }

  async #guard(task: string, action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      throw storeFault(task, this.location, error);
    }
  }

  /** Written beside and renamed, so that a reader never finds half a manifest. */
  async #replaceManifest(manifest: JsonObject): Promise<void> {
    const draft = join(this.location, draftName);
    await writeFile(draft, this.#manifestText(manifest));
    await rename(draft, this.#path("manifest"));
  }

  #manifestText(manifest: JsonObject): string {
    // First for people, and ours whatever the manifest says.
    const whole = new Map<string, JsonValue>([["format", runFormat], ...manifest, ["format", runFormat]]);
    return this.#redact(`${dumpJson(whole, { indent: 2 })}\n`);
  }

  #path(file: keyof typeof runFiles): string {
    return join(this.location, runFiles[file]);
  }
}
