// The rows of a run for its reader: by number, by id, in pages, or from a byte on. They are in
// `index.jsonl` of the run; where that is absent or does not fit the episodes, in a cached index
// (`index-cache.ts`). In a run without shards `episodes.jsonl` is authoritative: episodes that its
// index does not name yet are read from there.

import { type FileHandle, open, stat } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError } from "../core/index.ts";
import { type EpisodeSummary, readSummary } from "./episode-index.ts";
import { cachedIndex, type IndexFile, scanEpisodes } from "./index-cache.ts";
import { endOfLines, lineReach, readAt, readRawLines, statedChecksum, sizeOf } from "./lines.ts";
import { runFiles, type TornLine } from "./run-store.ts";
import { requireRegular } from "../system/regular-file.ts";

const lineFeed = 0x0a;

/** Index and tail as found by a refresh. */
type State = {
  /** `null` if all rows are in `tail`. */
  readonly file: IndexFile | null;
  /** True: a cached index replaces the run's own. */
  readonly isCached: boolean;
  /**
   * Rows of episodes that are not in the index yet, and the end of the part of their file that was
   * read.
   */
  readonly tail: readonly EpisodeSummary[];
  readonly tailEnd: number;
  /** The end of an unfinished line. */
  readonly torn: TornLine | null;
};

/** The rows of a run at one moment; later rows are in the next view. */
export type IndexView = {
  /** Number of episodes. */
  readonly count: number;
  readonly torn: TornLine | null;
  /** Rows from a number on, in stored order. */
  rows(from?: number): AsyncGenerator<EpisodeSummary>;
  byNumber(number: number): Promise<EpisodeSummary | null>;
  /** The first row with that id. */
  byId(id: string): Promise<EpisodeSummary | null>;
};

export class RunIndex {
  readonly #folder: string;
  readonly #hasShards: boolean;
  readonly #cacheFolder: string;
  #state: State | null = null;
  /** Serializes refreshes: one at a time, for all callers. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(folder: string, hasShards: boolean, cacheFolder: string) {
    this.#folder = folder;
    this.#hasShards = hasShards;
    this.#cacheFolder = cacheFolder;
  }

  async view(): Promise<IndexView> {
    const state = await this.#exclusively(() => this.#refresh());
    return {
      count: countOf(state),
      torn: state.torn,
      rows: (from) => this.#rows(state, from),
      byNumber: async (number) => {
        if (!Number.isInteger(number) || number < 1) return null;
        for await (const row of this.#rows(state, number)) return row.number === number ? row : null;
        return null;
      },
      byId: (id) => this.#byId(state, id),
    };
  }

  get #episodes(): string {
    return join(this.#folder, runFiles.episodes);
  }

  #exclusively(action: () => Promise<State>): Promise<State> {
    const result = this.#last.then(async () => (this.#state = await action()));
    this.#last = result.catch(() => undefined);
    return result;
  }

  async #refresh(): Promise<State> {
    const before = this.#state;
    if (this.#hasShards) {
      const { file, torn } = await this.#ownIndex();
      return { file, torn, isCached: false, tail: [], tailEnd: 0 };
    }
    const isCut = before !== null && (await sizeOf(this.#episodes)) < before.tailEnd;
    if (before?.isCached === true) return isCut ? this.#fromCache() : this.#withTail(before);
    const { file } = await this.#ownIndex().catch(() => ({ file: null }));
    const start = file === null ? null : await this.#endOfIndexed(file);
    if (file === null || start === null) return this.#fromCache();
    const known = isCut ? [] : (before?.tail.filter(({ number }) => number > file.count) ?? []);
    const goesOn = before !== null && known[0]?.number === file.count + 1 && known[0].place.offset === start;
    const tail = goesOn ? { tail: known, tailEnd: before.tailEnd } : { tail: [], tailEnd: start };
    return this.#withTail({ ...tail, file, isCached: false });
  }

  async *#rows(state: State, from = 1): AsyncGenerator<EpisodeSummary> {
    let next = Math.max(1, from);
    let { tail } = state;
    try {
      for await (const row of this.#indexed(state.file, next)) {
        yield row;
        next = row.number + 1;
      }
    } catch (error) {
      const other = await this.#insteadOf(state, error);
      ({ tail } = other);
      for await (const row of this.#indexed(other.file, next)) {
        yield row;
        next = row.number + 1;
      }
    }
    for (const row of tail) if (row.number >= next) yield row;
  }

  async #byId(state: State, id: string): Promise<EpisodeSummary | null> {
    const { file } = state;
    if (file !== null) {
      const needle = `"id":${JSON.stringify(id)}`;
      try {
        for await (const { bytes, start } of readRawLines(file.path, () => undefined, { end: file.end })) {
          if (!bytes.includes(needle)) continue;
          const row = readSummary(bytes, file.path, `at byte ${start}`);
          if (row.id === id) return row;
        }
      } catch (error) {
        const other = await this.#insteadOf(state, error);
        for await (const row of this.#rows(other)) if (row.id === id) return row;
        return null;
      }
    }
    return state.tail.find((row) => row.id === id) ?? null;
  }

  /** Rows of the index file. Throws for a line that is corrupted or has the wrong number. */
  async *#indexed(file: IndexFile | null, from: number): AsyncGenerator<EpisodeSummary> {
    if (file === null || from > file.count) return;
    const misplaced = (at: string, found: string): ConfigurationError =>
      new ConfigurationError(
        `Cannot read "${file.path}" ${at}: ${found}, expected number ${number} of ${file.count}; resume the run, which renumbers them.`,
      );
    let number = from;
    const start = from === 1 ? 0 : await offsetOf(file, from);
    for await (const { bytes, start: byte } of readRawLines(file.path, () => undefined, { start, end: file.end })) {
      const row = readSummary(bytes, file.path, `at byte ${byte}`);
      if (row.number < number) continue;
      if (row.number !== number || (!this.#hasShards && row.place.shard !== null)) {
        throw misplaced(`at byte ${byte}`, `it is episode ${row.number}`);
      }
      yield row;
      number++;
    }
    if (number <= file.count) throw misplaced("at its end", "nothing follows");
  }

  /** Replaces a broken index from the episodes, which hold the same facts in a run without shards. */
  async #insteadOf(state: State, error: unknown): Promise<State> {
    if (this.#hasShards) throw error;
    return this.#exclusively(async () => {
      const isReplaced = this.#state?.isCached === true && this.#state.file !== state.file;
      return isReplaced ? this.#state! : this.#fromCache(state.isCached);
    });
  }

  /** `isBroken`: the cached index is made again. */
  async #fromCache(isBroken = false): Promise<State> {
    const file = await cachedIndex(this.#episodes, { folder: this.#cacheFolder, isBroken });
    let last: EpisodeSummary | null;
    try {
      last = file === null ? null : await lastRow(file.path, file.end);
    } catch (error) {
      if (isBroken) throw error;
      return this.#fromCache(true);
    }
    const tailEnd = last === null ? 0 : last.place.offset + last.place.length + 1;
    return this.#withTail({ file, isCached: true, tail: [], tailEnd });
  }

  /** Adds the rows that were written since. */
  async #withTail(state: Omit<State, "torn">): Promise<State> {
    let torn: TornLine | null = null;
    const rows: EpisodeSummary[] = [];
    if ((await sizeOf(this.#episodes)) > state.tailEnd) {
      const from = { start: state.tailEnd, number: countOf(state) + 1 };
      for await (const row of scanEpisodes(this.#episodes, from, (line) => (torn = line))) rows.push(row);
    }
    const last = rows.at(-1)?.place;
    const tailEnd = last === undefined ? state.tailEnd : last.offset + last.length + 1;
    return { ...state, tail: rows.length === 0 ? state.tail : [...state.tail, ...rows], tailEnd, torn };
  }

  /** The run's own index. Throws if its last line is corrupted, or if a run with shards has none. */
  async #ownIndex(): Promise<{ readonly file: IndexFile | null; readonly torn: TornLine | null }> {
    const path = join(this.#folder, runFiles.index);
    const size = await stat(path).then(
      (found) => found.size,
      () => null,
    );
    if (size === null && !this.#hasShards) return { file: null, torn: null };
    if (size === null) {
      throw new ConfigurationError(
        `Cannot read run "${this.#folder}": it has no "${runFiles.index}", which says which entries of its shards count; restore the file.`,
      );
    }
    const end = await endOfLines(path, size);
    const file = { path, end, count: (await lastRow(path, end))?.number ?? 0 };
    return { file, torn: end < size ? { file: path, bytes: size - end } : null };
  }

  /** The end of the last episode that an index names; `null` if another episode is at that place. */
  async #endOfIndexed({ path, end }: IndexFile): Promise<number | null> {
    const last = await lastRow(path, end);
    if (last === null) return 0;
    const { shard, offset, length, crc32 } = last.place;
    if (shard !== null) return null;
    const field = await readAt(this.#episodes, offset + Math.max(0, length - 20), Math.min(length, 20) + 1);
    const isThere = field.at(-1) === lineFeed && statedChecksum(field.subarray(0, -1)) === crc32;
    return isThere ? offset + length + 1 : null;
  }
}

function countOf({ file, tail }: Pick<State, "file" | "tail">): number {
  return tail.at(-1)?.number ?? file?.count ?? 0;
}

/** The last row before `end`; `null` if there is none. */
async function lastRow(path: string, end: number): Promise<EpisodeSummary | null> {
  if (end === 0) return null;
  const start = await endOfLines(path, end - 1);
  return readSummary(await readAt(path, start, end - 1 - start), path, `at byte ${start}`);
}

/**
 * A byte shortly before the row of `number`, found by bisection, since each line begins with its
 * number.
 */
async function offsetOf({ path, end }: IndexFile, number: number): Promise<number> {
  await requireRegular(path);
  const handle = await open(path, "r");
  try {
    let [low, high] = [0, end];
    while (high - low > lineReach) {
      const middle = low + Math.floor((high - low) / 2);
      const found = await lineAfter(handle, middle);
      if (found === null || found.start >= high) {
        high = middle;
      } else if (found.number <= number) {
        low = found.start;
      } else {
        high = middle;
      }
    }
    return low;
  } finally {
    await handle.close();
  }
}

/** The first line that begins after a byte. */
async function lineAfter(
  handle: FileHandle,
  byte: number,
): Promise<{ readonly start: number; readonly number: number } | null> {
  const bytes = await readAt(handle, byte, lineReach);
  const at = bytes.indexOf(lineFeed) + 1;
  const number = /^\{"number":(\d{1,16}),/.exec(bytes.toString("latin1", at, at + 40))?.[1];
  return at === 0 || number === undefined ? null : { start: byte + at, number: Number(number) };
}
