// Lines of episodes, read by their places in the files of a run folder: `episodes.jsonl` and those
// of its shards.

import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { ConfigurationError, type Episode, messageOf } from "../core/index.ts";
import { parseJson } from "../python-semantics/json/parse-json.ts";
import { type EpisodePlace, fileOf } from "./episode-index.ts";
import { validChecksum } from "./lines.ts";
import { episodeFromJson } from "./records.ts";
import { runFiles } from "./run-store.ts";

/** `size`: known minimum size in bytes; the file may have grown. `ahead`: the last part that was read ahead. */
type OpenedFile = {
  readonly handle: FileHandle;
  size: number;
  ahead: { readonly start: number; readonly bytes: Buffer };
};

/** Bytes that are read at once where lines follow each other. */
const aheadBytes = 1 << 20;

/** Reads lines of episodes. Opens each file once. */
export class EpisodeFiles {
  readonly #folder: string;
  readonly #readsAhead: boolean;
  readonly #opened = new Map<string, Promise<OpenedFile>>();

  /** `readsAhead`: lines are requested about in the order of the file. Default: false. */
  constructor(folder: string, { readsAhead = false }: { readonly readsAhead?: boolean } = {}) {
    this.#folder = folder;
    this.#readsAhead = readsAhead;
  }

  /** The line. Rejects with a `ConfigurationError` if the place has another line, or none. */
  async line(id: string, place: EpisodePlace): Promise<Buffer> {
    const { shard, offset, length, crc32 } = place;
    const file = fileOf(shard);
    const fail = (fault: string, cause?: unknown): ConfigurationError =>
      new ConfigurationError(
        `Cannot read episode "${id}" in "${join(this.#folder, file)}" at byte ${offset}: ${fault}. Restore the file from a copy, ` +
          `or remove the line of the episode from ${shard === null ? file : runFiles.index}, set "status" in ${runFiles.manifest} ` +
          `to "running" and resume the run, which runs the episode again.`,
        { cause },
      );
    const opened = await this.#open(file).catch((error: unknown) => {
      throw fail(messageOf(error), error);
    });
    // Checked before such a large buffer is allocated.
    if (opened.size < offset + length) opened.size = (await opened.handle.stat()).size;
    if (opened.size < offset + length)
      throw fail(`${length} bytes are to stand there, and the file ends at byte ${opened.size}`);
    const line = await this.#read(opened, offset, length);
    if (line.length < length)
      throw fail(`expected ${length} bytes, but only ${line.length} exist; the file was truncated`);
    if (validChecksum(line) !== crc32) throw fail("it is not what was written; its checksum is another one");
    return line;
  }

  async #read(opened: OpenedFile, offset: number, length: number): Promise<Buffer> {
    const { start, bytes } = opened.ahead;
    const end = start + bytes.length;
    if (offset >= start && offset + length <= end) return bytes.subarray(offset - start, offset - start + length);
    // A line far from the last part is one of a row in another order, which does not pay for reading ahead.
    const isNext = this.#readsAhead && offset + length > end && offset - end < aheadBytes;
    const size = isNext ? Math.max(length, aheadBytes) : length;
    const read = await opened.handle.read(Buffer.allocUnsafe(size), 0, size, offset);
    const found = read.buffer.subarray(0, read.bytesRead);
    if (isNext) opened.ahead = { start: offset, bytes: found };
    return found.subarray(0, length);
  }

  async episode(id: string, place: EpisodePlace): Promise<Episode> {
    const line = await this.line(id, place);
    const where = `"${join(this.#folder, fileOf(place.shard))}" at byte ${place.offset}`;
    const episode = episodeFromJson(parseJson(line.toString("utf8")), where);
    if (episode.id === id) return episode;
    throw new ConfigurationError(
      `Cannot read ${where}: it holds episode "${episode.id}", and ${runFiles.index} names "${id}"; remove ${runFiles.index} where the run has no shards, and resume it.`,
    );
  }

  async close(): Promise<void> {
    const files = [...this.#opened.values()];
    this.#opened.clear();
    for (const file of files) await (await file.catch(() => null))?.handle.close();
  }

  #open(file: string): Promise<OpenedFile> {
    const known = this.#opened.get(file);
    if (known !== undefined) return known;
    const opened = open(join(this.#folder, file), "r").then((handle) => ({
      handle,
      size: 0,
      ahead: { start: 0, bytes: Buffer.alloc(0) },
    }));
    this.#opened.set(file, opened);
    opened.catch(() => this.#opened.delete(file));
    return opened;
  }
}
