// The runs below a folder, newest first: what the page lists, and the runs that are opened from it.
// Files that did not change are not read again. Rates are read in the background; requests come
// first.

import { dirname, sep } from "node:path";
import { setTimeout } from "node:timers/promises";
import { ConfigurationError, messageOf } from "../core/index.ts";
import { wellFormed } from "../lib/text.ts";
import type { EpisodeStore } from "./episode-store.ts";
import { readEntry, readRates, type Signature, signatureOf } from "./home-entry.ts";
import { type Found, slices, type WalkLimits, walkRuns } from "./home-walk.ts";
import { RunView, type RunViewOptions } from "./run-view.ts";
import type { HomeEntry, HomePage } from "./wire/index.ts";

export type HomeQuery = {
  /** Words that an entry must contain, in any order and case. @default none */
  readonly filter?: string;
  /** A column; a minus before its name sorts the largest first. @default "-startedMs" */
  readonly sort?: string;
  readonly count: number;
};

/**
 * Minimum time between two walks, and the time that a first answer waits for rates: only where there
 * are so few that they may be read by then.
 */
const refreshMs = 1000;
const firstSliceMs = 60;
const fewRates = 100;
/**
 * Runs that stay open: the ones that were used last. Others are closed once they have not been used
 * for a while, so that pages that follow more runs than that do not close each other's; and at once
 * where too many are open. A run that is answering a request is never closed.
 */
const usualOpen = 8;
const mostOpen = 64;
const idleMs = 30_000;

type Known = {
  readonly found: Found;
  readonly signature: Signature;
  /** `null` for a file of an unknown format. */
  entry: HomeEntry | null;
  hasMore: boolean;
};

type OpenRun = { readonly view: Promise<RunView>; requests: number; usedMs: number };

export class Home {
  readonly folder: string;
  readonly #openStore: (path: string) => Promise<EpisodeStore>;
  readonly #options: RunViewOptions;
  readonly #limits: WalkLimits;
  #known = new Map<string, Known>();
  #notes: readonly string[] = [];
  #version = 0;
  #refreshed = -Infinity;
  #refreshing: Promise<void> | null = null;
  #reading: Promise<void> | null = null;
  /** Open runs, the one that was used last at the end. */
  readonly #opened = new Map<string, OpenRun>();
  #isClosed = false;

  /** `openStore` opens a run, a training or a log by its path. */
  constructor(
    folder: string,
    openStore: (path: string) => Promise<EpisodeStore>,
    { limits = {}, ...options }: RunViewOptions & { readonly limits?: WalkLimits } = {},
  ) {
    this.folder = folder;
    this.#options = options;
    this.#openStore = openStore;
    this.#limits = limits;
  }

  /** Rejects with a `ConfigurationError` if the folder cannot be read. */
  async page({ filter = "", sort = "-startedMs", count }: HomeQuery): Promise<HomePage> {
    await this.refresh();
    if (this.#reading !== null && this.#known.size <= fewRates) {
      await Promise.race([this.#reading, setTimeout(firstSliceMs)]);
    }
    const all = [...this.#known.values()].flatMap(({ entry }) => entry ?? []);
    const words = filter
      .toLowerCase()
      .split(/\s+/)
      .filter((word) => word !== "");
    const matching = words.length === 0 ? all : all.filter((entry) => hasWords(entry, words));
    return {
      folder: this.folder,
      version: String(this.#version),
      entries: sorted(matching, sort).slice(0, count),
      matched: matching.length,
      total: all.length,
      isReading: this.#reading !== null,
      notes: this.#notes,
    };
  }

  /**
   * Opens a listed run, or gives the open one. Rejects with a `ConfigurationError` for a key that
   * is not listed: nothing outside the folder can be opened.
   */
  async open(key: string): Promise<RunView> {
    if (!this.#known.has(key)) await this.refresh(true);
    const path = this.#known.get(key)?.found.path;
    if (path === undefined || this.#known.get(key)?.entry === null) {
      throw new ConfigurationError(
        `Cannot find run ${JSON.stringify(key.slice(0, 200))} below "${this.folder}"; open the list, and choose one there.`,
      );
    }
    const open = this.#opened.get(key) ?? {
      view: this.#openStore(path).then((store) => new RunView(store, key, this.#options)),
      requests: 0,
      usedMs: 0,
    };
    open.usedMs = performance.now();
    this.#opened.delete(key);
    this.#opened.set(key, open);
    open.view.catch(() => {
      if (this.#opened.get(key) === open) this.#opened.delete(key);
    });
    await this.#closeIdle(open);
    return open.view;
  }

  /** Opens a listed run, and keeps it open until the work is done. Rejects like `open` and the work. */
  async use<T>(key: string, work: (run: RunView) => Promise<T>): Promise<T> {
    const run = await this.open(key);
    const open = this.#opened.get(key);
    // It was closed in the meantime.
    if (open === undefined || (await open.view) !== run) return this.use(key, work);
    open.requests++;
    try {
      return await work(run);
    } finally {
      open.requests--;
      open.usedMs = performance.now();
    }
  }

  async #closeIdle(current: OpenRun): Promise<void> {
    const now = performance.now();
    const closing: OpenRun[] = [];
    for (const [key, open] of this.#opened) {
      const { size } = this.#opened;
      if (size <= usualOpen) break;
      if (open === current || open.requests > 0 || (size <= mostOpen && now - open.usedMs < idleMs)) continue;
      this.#opened.delete(key);
      closing.push(open);
    }
    for (const { view } of closing) {
      await view.then(
        (run) => run.close(),
        () => undefined,
      );
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#refreshing?.catch(() => undefined);
    await this.#reading;
    const opened = [...this.#opened.values()];
    this.#opened.clear();
    for (const { view } of opened) {
      await view.then(
        (run) => run.close(),
        () => undefined,
      );
    }
  }

  /** Lists the folder again, unless that was a moment ago. Rejects like `page`. */
  async refresh(isForced = false): Promise<void> {
    if (!isForced && performance.now() - this.#refreshed < refreshMs) return;
    this.#refreshing ??= this.#walk().finally(() => (this.#refreshing = null));
    await this.#refreshing;
  }

  async #walk(): Promise<void> {
    const { found, notes } = await walkRuns(this.folder, this.#limits).catch((error: unknown) => {
      throw new ConfigurationError(`Cannot list "${this.folder}": ${messageOf(error)}; name another folder.`, {
        cause: error,
      });
    });
    const known = new Map<string, Known>();
    let hasChanged = this.#known.size === 0 || notes.join("\n") !== this.#notes.join("\n");
    const pause = slices();
    for (const one of found) {
      const key = this.#keyOf(one.path);
      const read = await this.#read(one, key);
      await pause();
      if (read === null) continue;
      hasChanged ||= this.#known.get(key) !== read;
      known.set(key, read);
    }
    // A folder of another program is listed only where no log in it is.
    for (const { found: one, entry } of [...known.values()]) {
      if (one.kind !== "log" || entry === null) continue;
      const folder = this.#keyOf(dirname(one.path));
      if (known.get(folder)?.found.kind === "other") known.delete(folder);
    }
    hasChanged ||= known.size !== this.#known.size;
    this.#known = known;
    this.#notes = notes;
    if (hasChanged) this.#version++;
    this.#refreshed = performance.now();
    this.#reading ??= this.#readOn().finally(() => (this.#reading = null));
  }

  /** The known entry itself if nothing changed. */
  async #read(found: Found, key: string): Promise<Known | null> {
    const signature = signatureOf(found);
    if (signature === null) return null;
    const known = this.#known.get(key);
    // A process ends without a change of its files.
    if (known !== undefined && known.signature.text === signature.text && known.entry?.isLive !== true) return known;
    const read = await readEntry(found, { key, signature });
    const entry = read?.entry ?? null;
    if (known === undefined) return { found, signature, entry, hasMore: read?.hasMore ?? false };
    const before = known.entry;
    if (before === null || entry === null || known.signature.text !== signature.text) {
      // Rates of before stay until the new ones are read.
      const rates =
        before === null || entry === null
          ? {}
          : { episodes: before.episodes, passRate: before.passRate, interval: before.interval, curve: before.curve };
      return {
        found,
        signature,
        entry: entry === null ? null : { ...entry, ...rates },
        hasMore: read?.hasMore ?? false,
      };
    }
    if (entry.isLive) return known;
    return { ...known, entry: { ...before, status: entry.status, isLive: false } };
  }

  /** Reads rates, of the newest first. */
  async #readOn(): Promise<void> {
    for (;;) {
      const waiting = [...this.#known.values()]
        .filter(({ hasMore }) => hasMore)
        .sort((a, b) => (b.entry?.startedMs ?? 0) - (a.entry?.startedMs ?? 0));
      if (waiting.length === 0) return;
      const pause = slices();
      for (const known of waiting) {
        if (this.#isClosed) return;
        known.hasMore = false;
        if (known.entry !== null) known.entry = await readRates(known.entry, known.found.path);
        this.#version++;
        await pause();
      }
    }
  }

  #keyOf(path: string): string {
    if (path.length <= this.folder.length) return ".";
    const below = path.slice(this.folder.length + (this.folder.endsWith(sep) ? 0 : 1));
    return wellFormed(sep === "/" ? below : below.split(sep).join("/"));
  }
}

function hasWords({ key, kind, environment, policy, status }: HomeEntry, words: readonly string[]): boolean {
  const text = [key, kind, environment, policy, status].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Sorts unknown values last. */
function sorted(entries: readonly HomeEntry[], sort: string): HomeEntry[] {
  const isFalling = sort.startsWith("-");
  const column = sort.replace(/^-/, "") as keyof HomeEntry;
  const sign = isFalling ? -1 : 1;
  const value = (entry: HomeEntry): number | string | null => {
    const found = Object.hasOwn(entry, column) ? entry[column] : null;
    return typeof found === "number" || typeof found === "string" ? found : null;
  };
  return entries.toSorted((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (left === right) return a.key < b.key ? -1 : 1;
    if (left === null || right === null) return left === null ? 1 : -1;
    return sign * (left < right ? -1 : 1);
  });
}
