// The journal's files: numbered segments below `journal/`, each of which only grows. A segment whose episodes have all ended
// is superseded by `episodes.jsonl` and removed, so that the journal is about as large as what is under way. A process never
// writes into a segment of another one: the torn end of a killed process stays where it is.

import { mkdir, open, readdir, rm, rmdir } from "node:fs/promises";
import { join } from "node:path";
import { AppendFile } from "./append-file.ts";

const digits = 8;

/** Files of the segments, in the order they were written. */
export async function listSegments(folder: string): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  return names
    .filter((name) => /^\d+\.jsonl$/.test(name))
    .toSorted()
    .map((name) => join(folder, name));
}

export type SegmentOptions = {
  /** A segment that has grown beyond this many bytes is followed by another. */
  readonly segmentBytes: number;
  /** Whether what is new shall survive a power cut. */
  readonly isSynced: boolean;
  /** Called before a segment is removed: what supersedes it must be on the disk. */
  readonly beforeRemoval: () => Promise<void>;
};

/** Writes segments and removes them. One call at a time, except for `sync`. */
export class JournalSegments {
  readonly #folder: string;
  readonly #options: SegmentOptions;
  /** Episodes under way, by the segment that has events of them. */
  readonly #open = new Map<string, Set<string>>();
  #current: { readonly path: string; readonly file: AppendFile } | null = null;
  #next: number;

  /** `left`: what earlier processes left. */
  constructor(folder: string, left: ReadonlyMap<string, ReadonlySet<string>>, options: SegmentOptions) {
    this.#folder = folder;
    this.#options = options;
    for (const [path, episodes] of left) this.#open.set(path, new Set(episodes));
    this.#next = Math.max(0, ...[...left.keys()].map((path) => Number(/(\d+)\.jsonl$/.exec(path)?.[1]))) + 1;
  }

  /** Appends lines of these episodes. */
  async append(lines: Buffer, episodeIds: Iterable<string>): Promise<void> {
    if (this.#current !== null && this.#current.file.size >= this.#options.segmentBytes) await this.#finishCurrent();
    this.#current ??= await this.#begin();
    const { path, file } = this.#current;
    const episodes = this.#open.get(path) ?? new Set<string>();
    this.#open.set(path, episodes);
    for (const id of episodeIds) episodes.add(id);
    await file.append(lines);
  }

  /** Forces what was appended to the disk. */
  async sync(): Promise<void> {
    await this.#current?.file.sync();
  }

  /** An episode has ended and is kept: its events are not needed any more. */
  async forget(episodeIds: readonly string[]): Promise<void> {
    for (const episodes of this.#open.values()) for (const id of episodeIds) episodes.delete(id);
    await this.#removeSuperseded();
  }

  /** Removes what is superseded; a journal of a run without open ends goes altogether. */
  async close(): Promise<void> {
    await this.#finishCurrent();
    if (this.#open.size === 0) await rmdir(this.#folder).catch(() => undefined);
  }

  async #begin(): Promise<{ readonly path: string; readonly file: AppendFile }> {
    await mkdir(this.#folder, { recursive: true });
    const path = join(this.#folder, `${String(this.#next++).padStart(digits, "0")}.jsonl`);
    const file = await AppendFile.create(path);
    if (this.#options.isSynced) await syncFolder(this.#folder);
    return { path, file };
  }

  async #finishCurrent(): Promise<void> {
    if (this.#current === null) return;
    const { file } = this.#current;
    // First, so that a `sync` of that moment does not find a file that is being closed.
    this.#current = null;
    if (this.#options.isSynced) await file.sync();
    await file.close();
    await this.#removeSuperseded();
  }

  async #removeSuperseded(): Promise<void> {
    const superseded = [...this.#open].filter(([path, { size }]) => size === 0 && path !== this.#current?.path);
    if (superseded.length === 0) return;
    await this.#options.beforeRemoval();
    for (const [path] of superseded) {
      await rm(path, { force: true });
      this.#open.delete(path);
    }
  }
}

/** The name of a new file survives a power cut only with its folder. Systems that cannot do this do not need it. */
async function syncFolder(folder: string): Promise<void> {
  try {
    const handle = await open(folder, "r");
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  } catch {
    // Windows.
  }
}
