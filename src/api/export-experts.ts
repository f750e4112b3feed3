// The experts of exported rows, joined over turns and branches into one file beside the rows: a
// trainer reads the array at a row's offset and replays it. One row in memory at a time. The file
// is not JSON, because a token has hundreds of numbers.

import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { basename } from "node:path";
import { ConfigurationError, type Episode, type Sample } from "../core/index.ts";
import type { RoutedExpertsPlace } from "../export/index.ts";
import type { RoutedExpertsReader } from "../store/index.ts";
import { expertsOf } from "../trajectories/index.ts";

/** Writes the experts of samples, in the order of the calls. */
export class ExpertsWriter {
  readonly #path: string;
  #file: number | null = null;
  #size = 0;
  /** True if the samples so far have experts; `null` before the first sample. */
  #hasExperts: boolean | null = null;

  constructor(path: string) {
    this.#path = path;
  }

  /** Number of bytes written; 0 if no sample has experts, and then no file exists. */
  get size(): number {
    return this.#size;
  }

  /** Throws a `ConfigurationError` when some samples have experts and others have none: a trainer replays all or none. */
  write(sample: Sample, episode: Episode, reader: RoutedExpertsReader): RoutedExpertsPlace | null {
    const parts = expertsOf(sample, episode.trajectory);
    if ((this.#hasExperts ??= parts !== null) !== (parts !== null)) {
      throw new ConfigurationError(
        `Cannot export sample "${sample.id}": it has ${parts === null ? "no routed experts" : "routed experts"}, the samples before it ` +
          `${parts === null ? "have some" : "have none"}, and a trainer replays the routing of all or of none; export such runs separately.`,
      );
    }
    if (parts === null) return null;
    const width = Math.max(...parts.map((part) => part.width));
    const { layers, topk } = parts[0]!;
    const offset = this.#size;
    for (const part of parts) this.#append(widened(reader.read(part), part.width, width));
    const shape = [sample.tokens.length - 1, layers, topk] as const;
    return { file: basename(this.#path), offset, dtype: width === 1 ? "uint8" : "uint16", shape };
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  /** Removes the file of rows that were not finished. */
  abandon(): void {
    const wasOpened = this.#size > 0;
    this.close();
    if (wasOpened) rmSync(this.#path, { force: true });
  }

  #append(bytes: Uint8Array): void {
    this.#file ??= openSync(this.#path, "w");
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at);
    this.#size += bytes.length;
  }
}

function widened(bytes: Uint8Array, from: number, to: number): Uint8Array {
  if (from === to) return bytes;
  const wide = new Uint8Array(bytes.length * 2);
  for (let place = 0; place < bytes.length; place++) wide[place * 2] = bytes[place]!;
  return wide;
}
