// Writes the journal of a run: events wait in memory while one write is under way and leave together, so that thousands of
// episodes share few writes, and few syncs.

import type { EpisodeEvent } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { BatchQueue } from "./batch-queue.ts";
import { writeJournalLine } from "./journal-line.ts";
import { JournalSegments, type SegmentOptions } from "./journal-segments.ts";
import { OutgoingLines } from "./outgoing-lines.ts";

/**
 * When the journal is forced to the disk. "always": before an event counts. A number: at most so many milliseconds later.
 * "never": when the system sees fit. A killed process loses nothing in any case; what may go is what a power cut or a crash
 * of the system finds unwritten.
 */
export type FsyncPolicy = "always" | "never" | number;

export type RunJournalOptions = {
  readonly fsync: FsyncPolicy;
  readonly redact: (text: string) => string;
  readonly segmentBytes: number;
  readonly beforeRemoval: SegmentOptions["beforeRemoval"];
  /** Default: the real clock. */
  readonly clock?: Clock;
};

/** What earlier processes left. */
export type JournalState = {
  readonly segments: ReadonlyMap<string, ReadonlySet<string>>;
  readonly counts: ReadonlyMap<string, number>;
};

/** What waits for the next write; the lines wait in `#lines`. */
type Entry = { readonly type: "event" | "end"; readonly episodeId: string };

export class RunJournal {
  readonly #options: RunJournalOptions;
  readonly #clock: Clock;
  readonly #segments: JournalSegments;
  readonly #counts: Map<string, number>;
  readonly #queue = new BatchQueue<Entry>((batch) => this.#write(batch));
  readonly #lines = new OutgoingLines();
  #cancelSync: (() => void) | null = null;
  #syncing: Promise<void> = Promise.resolve();
  #fault: { readonly error: unknown } | null = null;

  constructor(folder: string, state: JournalState, options: RunJournalOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    const { segmentBytes, beforeRemoval, fsync } = options;
    this.#segments = new JournalSegments(folder, state.segments, {
      segmentBytes,
      beforeRemoval,
      isSynced: fsync !== "never",
    });
    this.#counts = new Map(state.counts);
  }

  /** Resolves when the event has left the process, and is on the disk with "always". */
  record(episodeId: string, event: EpisodeEvent): Promise<void> {
    const number = this.#counts.get(episodeId) ?? 0;
    this.#lines.add((writer) => writeJournalLine(writer, { episodeId, number, event }, this.#options.redact));
    this.#counts.set(episodeId, number + 1);
    return this.#queue.add({ type: "event", episodeId });
  }

  /** The episode is kept elsewhere. */
  forget(episodeId: string): Promise<void> {
    this.#counts.delete(episodeId);
    return this.#queue.add({ type: "end", episodeId });
  }

  async close(): Promise<void> {
    await this.#queue.idle();
    this.#cancelSync?.();
    await this.#syncing;
    await this.#segments.close();
  }

  async #write(batch: readonly Entry[]): Promise<void> {
    if (this.#fault !== null) throw this.#fault.error;
    const lines = this.#lines.take();
    const ids = (type: Entry["type"]): readonly string[] =>
      batch.flatMap((entry) => (entry.type === type ? [entry.episodeId] : []));
    if (lines.length > 0) {
      await this.#segments.append(lines, ids("event"));
      if (this.#options.fsync === "always") await this.#segments.sync();
      else if (this.#options.fsync !== "never") this.#syncLater(this.#options.fsync);
    }
    const forgotten = ids("end");
    if (forgotten.length > 0) await this.#segments.forget(forgotten);
  }

  /** Beside further writes. A fault is told to whoever records next. */
  #syncLater(afterMs: number): void {
    this.#cancelSync ??= this.#clock.after(afterMs, () => {
      this.#cancelSync = null;
      this.#syncing = this.#segments.sync().catch((error: unknown) => {
        this.#fault ??= { error };
      });
    });
  }
}
