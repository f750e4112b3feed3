// The only reader of run folders, also of runs that are in progress or were killed: for commands,
// exports, evaluations and the viewer. It never writes into them. Rows of the index answer
// questions that need no whole episode; a whole episode is read at its place, in the file of the
// run or of a shard, without a merge.

import { existsSync, statSync } from "node:fs";

import { join } from "node:path";
import { ConfigurationError, type Episode, type GroupRecord } from "../core/index.ts";
import { requireWhole } from "../lib/limits.ts";
import { dumpJson } from "../python-semantics/json/dump-json.ts";
import type { JsonObject, JsonValue } from "../python-semantics/json/value.ts";
import { EpisodeFiles } from "./episode-files.ts";
import { type EpisodeSummary, fileOf } from "./episode-index.ts";
import { userCacheFolder } from "./index-cache.ts";
import { endOfLines, readAt, readCheckedLines, readRawLines, sizeOf } from "./lines.ts";
import { episodeFromJson, groupFromJson, parseRecord } from "./records.ts";
import { type IndexView, RunIndex } from "./run-index.ts";
import { runFiles, runFormat, type RunReader, type TornLine } from "./run-store.ts";
import { type MessageHit, searchMessages } from "./search-messages.ts";
import { parseWhere, whereFields } from "./where.ts";
import { readRegular, requireRegularSync } from "../system/regular-file.ts";

export type RunFolderOptions = {
  /** Called with a torn last line. Default: it is omitted silently. */
  readonly onTornLine?: (torn: TornLine) => void;
  /** Folder for indexes of runs that have none. Default: the user's cache folder. */
  readonly cacheFolder?: string;
};

/** Position up to which a run was read. Plain JSON. */
export type RunPosition = {
  /** Number of the last episode, and its id; 0 and `null` before the first. */
  readonly number: number;
  readonly id: string | null;
  /** Size of `groups.jsonl` that was read, and the end of its last line. */
  readonly groups: number;
  readonly lastGroup: string;
};

/** A page of rows, the newest first. */
export type RunPage = {
  readonly rows: readonly EpisodeSummary[];
  /** Number of episodes of the run. */
  readonly total: number;
  /** Position for `changesSince`. */
  readonly position: RunPosition;
};

export type RunChanges = {
  /** Rows in stored order. */
  readonly rows: readonly EpisodeSummary[];
  readonly groups: readonly GroupRecord[];
  readonly position: RunPosition;
  /** True: the rows read before no longer exist, and the result is empty; begin with a page. */
  readonly isReset: boolean;
};

/** A run folder. Every method sees the current state of the files. */
export interface RunFolder extends RunReader {
  /** Rows of the list of episodes, in stored order. A torn last line is reported. */
  summaries(): AsyncIterable<EpisodeSummary>;
  /** The newest `count` episodes, or those before episode number `before`. */
  page(range: { readonly count: number; readonly before?: number }): Promise<RunPage>;
  /** Row of an episode, found by its number in the list or its id; `null` if it does not exist. */
  summary(numberOrId: number | string): Promise<EpisodeSummary | null>;
  /** Reads a whole episode. Rejects with a `ConfigurationError` for a corrupted line. */
  episode(which: number | string | EpisodeSummary): Promise<Episode | null>;
  /**
   * Rows that match an expression, in stored order; the language is that of `export --where`.
   * Throws a `WhereError` at once.
   */
  filter(expression: string): AsyncIterable<EpisodeSummary>;
  /**
   * Messages that contain a text literally, in the order in which they are found: file by file, in
   * stored order within each.
   */
  search(text: string): AsyncIterable<MessageHit>;
  /**
   * Rows and groups written since a position, at most `count` rows (default 1,000): call it again
   * until it returns none.
   */
  changesSince(position: RunPosition, options?: { readonly count?: number }): Promise<RunChanges>;
  /** Returns the folder that holds the experts and kept ids of an episode. */
  expertsFolder(): Promise<(episodeId: string) => string>;
}

/** A run folder as a reader. Throws a `ConfigurationError` when the folder is missing or holds no run. */
export function openRunFolder(folder: string, options: RunFolderOptions = {}): RunFolder {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) {
    throw new ConfigurationError(`Cannot read run "${folder}": there is no such folder; name the folder of a rollout.`);
  }
  for (const file of [runFiles.manifest, runFiles.episodes]) {
    if (existsSync(join(folder, file))) {
      requireRegularSync(join(folder, file));
      continue;
    }
    throw new ConfigurationError(
      `Cannot read run "${folder}": it has no "${file}"; name the folder that a rollout wrote (its --out).`,
    );
  }
  return new Folder(folder, options);
}

/**
 * The episodes of a run folder, in the order they ended, one in memory at a time. A torn last line
 * is omitted and reported; any other line that is corrupted or unreadable throws, naming its
 * number, and so does a run of another format.
 */
export async function* readEpisodes(folder: string, options: RunFolderOptions = {}): AsyncGenerator<Episode> {
  yield* openRunFolder(folder, options).episodes();
}

/** True if several processes wrote the run: `index.jsonl` records which of their episodes count. */
export function hasShards(manifest: JsonObject): boolean {
  return manifest.get("sharded") === true;
}

const mostRows = 1000;

class Folder implements RunFolder {
  readonly location: string;
  readonly #report: (torn: TornLine) => void;
  readonly #cacheFolder: string;
  #index: RunIndex | null = null;

  constructor(folder: string, { onTornLine = () => undefined, cacheFolder = userCacheFolder() }: RunFolderOptions) {
    this.location = folder;
    this.#report = onTornLine;
    this.#cacheFolder = cacheFolder;
  }

  manifest(): Promise<JsonObject> {
    return readManifest(this.location);
  }

  async *episodes(): AsyncGenerator<Episode> {
    if (!(await this.#hasShards())) {
      yield* this.#records(runFiles.episodes, episodeFromJson);
      return;
    }
    const files = new EpisodeFiles(this.location);
    try {
      for await (const { id, place } of this.summaries()) yield await files.episode(id, place);
    } finally {
      await files.close();
    }
  }

  groups(): AsyncGenerator<GroupRecord> {
    return this.#records(runFiles.groups, (value, where) => groupFromJson(value, where).group);
  }

  async *sampleLines(): AsyncGenerator<string> {
    const file = join(this.location, runFiles.samples);
    if (!existsSync(file)) return;
    for await (const { bytes } of readRawLines(file, this.#report)) yield bytes.toString("utf8");
  }

  async *summaries(): AsyncGenerator<EpisodeSummary> {
    const index = await this.#view();
    const { torn } = index;
    yield* index.rows();
    if (torn !== null) this.#report(torn);
  }

  async page({ count, before }: { readonly count: number; readonly before?: number }): Promise<RunPage> {
    requireWhole("read a page", "count", count, 1);
    const index = await this.#view();
    const total = index.count;
    const end = Math.min(before ?? Infinity, total + 1);
    const rows: EpisodeSummary[] = [];
    for await (const row of index.rows(Math.max(1, end - count))) {
      if (row.number >= end) break;
      rows.push(row);
    }
    return { rows: rows.reverse(), total, position: await this.#position(await index.byNumber(total)) };
  }

  async summary(numberOrId: number | string): Promise<EpisodeSummary | null> {
    const index = await this.#view();
    return typeof numberOrId === "number" ? index.byNumber(numberOrId) : index.byId(numberOrId);
  }

  async episode(which: number | string | EpisodeSummary): Promise<Episode | null> {
    const summary = typeof which === "object" ? which : await this.summary(which);
    if (summary === null) return null;
    const files = new EpisodeFiles(this.location);
    try {
      return await files.episode(summary.id, summary.place);
    } finally {
      await files.close();
    }
  }

  filter(expression: string): AsyncGenerator<EpisodeSummary> {
    return this.#filtered(parseWhere(expression), expression.includes("group_mean"));
  }

  async *#filtered(passes: ReturnType<typeof parseWhere>, needsMeans: boolean): AsyncGenerator<EpisodeSummary> {
    const index = await this.#view();
    const groups = new Map<string, GroupRecord>();
    for await (const group of this.groups()) groups.set(group.groupId, group);
    /** Mean rewards of groups without a record, or whose record lacks these episodes. */
    const undecided = new Map<string, { sum: number; count: number }>();
    const decidedBy = ({ id, groupId }: EpisodeSummary): GroupRecord | null => {
      const group = groups.get(groupId);
      return group?.episodeIds.includes(id) === true ? group : null;
    };
    if (needsMeans) {
      for await (const row of index.rows()) {
        if (row.reward === null || decidedBy(row) !== null) continue;
        const { sum, count } = undecided.get(row.groupId) ?? { sum: 0, count: 0 };
        undecided.set(row.groupId, { sum: sum + row.reward, count: count + 1 });
      }
    }
    for await (const row of index.rows()) {
      const group = decidedBy(row);
      const others = undecided.get(row.groupId);
      const decision = group?.decision ?? (groups.has(row.groupId) ? "dropped" : "undecided");
      const groupMean =
        group === null ? (others === undefined ? null : others.sum / others.count) : meanOf(group.rewards);
      if (passes(whereFields(row, { decision, groupMean, run: null }))) yield row;
    }
  }

  async *search(text: string): AsyncGenerator<MessageHit> {
    const index = await this.#view();
    yield* searchMessages({ folder: this.location, hasShards: await this.#hasShards(), index }, text);
  }

  async changesSince(
    position: RunPosition,
    { count = mostRows }: { readonly count?: number } = {},
  ): Promise<RunChanges> {
    const index = await this.#view();
    const last = position.number === 0 ? null : await index.byNumber(position.number);
    const groupsFile = join(this.location, runFiles.groups);
    const isReset =
      (last?.id ?? null) !== position.id || (await endBefore(groupsFile, position.groups)) !== position.lastGroup;
    if (isReset)
      return { rows: [], groups: [], position: await this.#position(await index.byNumber(index.count)), isReset };
    const rows: EpisodeSummary[] = [];
    if (index.count > position.number) {
      for await (const row of index.rows(position.number + 1)) if (rows.push(row) >= count) break;
    }
    const groups: GroupRecord[] = [];
    let end = position.groups;
    if ((await sizeOf(groupsFile)) > end) {
      for await (const { bytes, start, where } of readCheckedLines(groupsFile, () => undefined, end)) {
        groups.push(groupFromJson(parseRecord(bytes, where), where).group);
        end = start + bytes.length + 1;
      }
    }
    const now = { ...newest(rows.at(-1) ?? last), groups: end, lastGroup: await endBefore(groupsFile, end) };
    return { rows, groups, position: now, isReset };
  }

  async expertsFolder(): Promise<(episodeId: string) => string> {
    if (!(await this.#hasShards())) return () => this.location;
    const shards = new Map<string, string | null>();
    for await (const { id, place } of this.summaries()) shards.set(id, place.shard);
    return (id) => join(this.location, fileOf(shards.get(id) ?? null), "..");
  }

  async #position(last: EpisodeSummary | null): Promise<RunPosition> {
    const file = join(this.location, runFiles.groups);
    const groups = await endOfLines(file, await sizeOf(file));
    return { ...newest(last), groups, lastGroup: await endBefore(file, groups) };
  }

  async #hasShards(): Promise<boolean> {
    return hasShards(await this.manifest());
  }

  async #view(): Promise<IndexView> {
    this.#index ??= new RunIndex(this.location, await this.#hasShards(), this.#cacheFolder);
    return this.#index.view();
  }

  async *#records<T>(name: string, read: (value: JsonValue, where: string) => T): AsyncGenerator<T> {
    // A run of another format is refused before a line of it is.
    await this.manifest();
    const file = join(this.location, name);
    for await (const { bytes, where } of readCheckedLines(file, this.#report)) {
      yield read(parseRecord(bytes, where), where);
    }
  }
}

function newest(row: EpisodeSummary | null): Pick<RunPosition, "number" | "id"> {
  return { number: row?.number ?? 0, id: row?.id ?? null };
}

/**
 * The bytes of a file before a place: they reveal a file that was cut and then continued
 * differently.
 */
async function endBefore(file: string, end: number): Promise<string> {
  const start = Math.max(0, end - 24);
  return end === 0 ? "" : (await readAt(file, start, end - start)).toString("latin1");
}

function meanOf(rewards: readonly (number | null)[]): number | null {
  const graded = rewards.filter((reward) => reward !== null);
  return graded.length === 0 ? null : graded.reduce((sum, reward) => sum + reward, 0) / graded.length;
}

async function readManifest(folder: string): Promise<JsonObject> {
  const file = join(folder, runFiles.manifest);
  const manifest = parseRecord(await readRegular(file, "utf8"), file);
  if (!(manifest instanceof Map)) throw new ConfigurationError(`Cannot read "${file}": it holds no JSON object.`);
  const format = manifest.get("format");
  if (format === runFormat) return manifest;
  throw new ConfigurationError(
    `Cannot read run "${folder}": it has format ${dumpJson(format ?? null)}, and this version reads format ${runFormat}; ` +
      "use the version that wrote it (see run.json).",
  );
}
