// Experts and kept ids of exported rows, joined over turns and branches into files beside the rows,
// which have their places: a trainer reads the bytes at a row's offset. One row in memory at a time.
// The files are not JSON, because a token has hundreds of numbers.

import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { basename } from "node:path";
import {
  ConfigurationError,
  type Episode,
  type RoutedExperts,
  type Sample,
  type SamplingMaskPlace as TurnMaskPlace,
} from "../core/index.ts";
import type { RoutedExpertsPlace, SamplingMaskPlace } from "../export/index.ts";
import { openRoutedExperts, openSamplingMasks, type TurnBytesReader } from "../store/index.ts";
import { expertsOf, samplingMasksOf } from "../trajectories/index.ts";

/** A file of the bytes of rows, created at the first write. */
class RowBytes {
  readonly #path: string;
  readonly #subject: string;
  readonly #use: string;
  #file: number | null = null;
  /** True if the samples so far have bytes; `null` before the first sample. */
  #hasBytes: boolean | null = null;
  size = 0;

  /** `subject`: name of the bytes in messages. `use`: what a trainer does with them. */
  constructor(path: string, subject: string, use: string) {
    this.#path = path;
    this.#subject = subject;
    this.#use = use;
  }

  get name(): string {
    return basename(this.#path);
  }

  /** Throws a `ConfigurationError` if some samples have bytes and others have none: a trainer uses those of all or of none. */
  admit(sample: Sample, hasBytes: boolean): void {
    if ((this.#hasBytes ??= hasBytes) === hasBytes) return;
    throw new ConfigurationError(
      `Cannot export sample "${sample.id}": it has ${hasBytes ? "" : "no "}${this.#subject}, the samples before it ` +
        `have ${hasBytes ? "none" : "some"}, and a trainer ${this.#use} of all or of none; export such runs separately.`,
    );
  }

  append(bytes: Uint8Array): void {
    this.#file ??= openSync(this.#path, "w");
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file, bytes, at);
    this.size += bytes.length;
  }

  close(): void {
    if (this.#file !== null) closeSync(this.#file);
    this.#file = null;
  }

  /** Removes the file of rows that were not finished. */
  abandon(): void {
    const wasOpened = this.size > 0;
    this.close();
    if (wasOpened) rmSync(this.#path, { force: true });
  }
}

type Sources = {
  readonly experts: TurnBytesReader<RoutedExperts>;
  readonly masks: TurnBytesReader<TurnMaskPlace>;
};

/** Writes experts and kept ids of samples, in the order of the calls. */
export class RowBytesWriter {
  readonly #experts: RowBytes;
  readonly #masks: RowBytes;
  /** Readers of each folder. */
  readonly #sources = new Map<string, Sources>();

  /** `path`: the file of the rows. */
  constructor(path: string) {
    this.#experts = new RowBytes(`${path}.routed-experts.bin`, "routed experts", "replays the routing");
    this.#masks = new RowBytes(`${path}.sampling-masks.bin`, "kept ids", "renormalizes the logprobs");
  }

  /** Number of bytes written; 0 if no sample has experts or kept ids, and then no such file exists. */
  get sizes(): { readonly expertBytes: number; readonly maskBytes: number } {
    return { expertBytes: this.#experts.size, maskBytes: this.#masks.size };
  }

  /** Throws a `ConfigurationError` when some samples have experts and others have none. `folder`: holds those of the episode. */
  experts(sample: Sample, episode: Episode, folder: string): RoutedExpertsPlace | null {
    const parts = expertsOf(sample, episode.trajectory);
    const file = this.#experts;
    file.admit(sample, parts !== null);
    if (parts === null) return null;
    const width = Math.max(...parts.map((part) => part.width));
    const { layers, topk } = parts[0]!;
    const offset = file.size;
    const { experts } = this.#sourcesIn(folder);
    for (const part of parts) file.append(widened(experts.read(part), part.width, width));
    const shape = [sample.tokens.length - 1, layers, topk] as const;
    return { file: file.name, offset, dtype: width === 1 ? "uint8" : "uint16", shape };
  }

  /** Like `experts`, for the kept ids of all sampled tokens. */
  mask(sample: Sample, episode: Episode, folder: string): SamplingMaskPlace | null {
    const parts = samplingMasksOf(sample, episode.trajectory);
    const file = this.#masks;
    file.admit(sample, parts !== null);
    if (parts === null) return null;
    const offset = file.size;
    const { masks } = this.#sourcesIn(folder);
    let [tokens, ids] = [0, 0];
    for (const part of parts) {
      file.append(masks.read(part));
      tokens += part.tokens;
      ids += part.ids;
    }
    return { file: file.name, offset, tokens, ids };
  }

  close(): void {
    for (const file of [this.#experts, this.#masks]) file.close();
  }

  abandon(): void {
    for (const file of [this.#experts, this.#masks]) file.abandon();
  }

  /** Closes the files that were read. */
  closeSources(): void {
    for (const { experts, masks } of this.#sources.values()) for (const reader of [experts, masks]) reader.close();
  }

  #sourcesIn(folder: string): Sources {
    const known = this.#sources.get(folder);
    if (known !== undefined) return known;
    const sources = { experts: openRoutedExperts(folder), masks: openSamplingMasks(folder) };
    this.#sources.set(folder, sources);
    return sources;
  }
}

/** Bytes of numbers of `from` bytes each as numbers of `to` bytes, 1 or 2. */
export function widened(bytes: Uint8Array, from: number, to: number): Uint8Array {
  if (from === to) return bytes;
  const wide = new Uint8Array(bytes.length * 2);
  for (let place = 0; place < bytes.length; place++) wide[place * 2] = bytes[place]!;
  return wide;
}
