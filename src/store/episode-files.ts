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

/** `size`: known minimum size in bytes; the file may have grown. */
type OpenedFile = { readonly handle: FileHandle; size: number };

/** Reads lines of episodes. Opens each file once. */
export class EpisodeFiles {
  readonly #folder: string;
  readonly #opened = new Map<string, Promise<OpenedFile>>();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Rejects with a `ConfigurationError` if the place has another line, or none. */
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
    const { buffer, bytesRead } = await opened.handle.read(Buffer.allocUnsafe(length), 0, length, offset);
    if (bytesRead < length) throw fail(`expected ${length} bytes, but only ${bytesRead} exist; the file was truncated`);
    if (validChecksum(buffer) !== crc32) throw fail("it is not what was written; its checksum is another one");
    return buffer;
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
    const opened = open(join(this.#folder, file), "r").then((handle) => ({ handle, size: 0 }));
    this.#opened.set(file, opened);
    opened.catch(() => this.#opened.delete(file));
    return opened;
  }
}
