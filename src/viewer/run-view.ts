// A run as the viewer serves it: rows of its episodes, one whole episode, its text token by token,
// a search of all messages. Rows and masks are read in the background in short slices, and requests
// come first: a requested episode is read at once.

import { setImmediate, setTimeout } from "node:timers/promises";
import { ConfigurationError } from "../core/index.ts";
import type { EpisodeStore } from "./episode-store.ts";
import { extractOf } from "./episode-extract.ts";
import type { RunMarks } from "./run-marks.ts";
import { readScoredFaults, scoreKey } from "./scored-faults.ts";
import { faultCounts, hasReason, isUnsuccessful, summaryOf, taskRows } from "./summary.ts";
import { linesOfEpisode, TrainerComparison, type TrainerLogprobs } from "./trainer-logprobs.ts";
import { decodeEpisode, samplesOf, wellFormed } from "./wire/index.ts";
import type {
  EpisodeExtract,
  EpisodePage,
  Hit,
  Mark,
  MarkLabels,
  MaskCheck,
  Reason,
  Row,
  RowFault,
  RowPage,
  RunFacts,
  SearchEnd,
  StoredEpisode,
  Summary,
  TaskPage,
} from "./wire/index.ts";

export type RowQuery = {
  /** An expression of `export --where`. @default every episode */
  readonly where?: string;
  readonly reason?: Pick<Reason, "kind" | "label">;
  readonly task?: string;
  /** A column; a minus before its name sorts the largest first. @default "-number" */
  readonly sort?: string;
  readonly from: number;
  readonly count: number;
  /**
   * The newest row that the page has: only later ones are sent, if that row is unchanged. Only for
   * unfiltered rows.
   */
  readonly after?: Pick<Row, "number" | "id">;
};

/**
 * Number of rows read at once, and the time for which masks are checked before other work gets a
 * turn.
 */
const batchRows = 256;
const sliceMs = 10;
/** Minimum time between two refreshes. */
const refreshMs = 200;
/** Time that a first answer waits for rows in progress. */
const firstSliceMs = 100;
const mostWrong = 20;
const mostHits = 1000;
const mostExtracts = 20_000;

export type RunViewOptions = {
  /** A trainer's logprobs to lay over the tokens. @default none */
  readonly trainer?: TrainerLogprobs | null;
  /**
   * Says whose fault an unsuccessful episode is, from its line and the folder of its run.
   * @default nothing is attributed
   */
  readonly attribute?: ((line: Buffer, folder: string) => Promise<RowFault>) | null;
  /** True if people may not mark episodes. @default false */
  readonly isReadOnly?: boolean;
};

export class RunView {
  readonly store: EpisodeStore;
  readonly key: string;
  readonly #trainer: TrainerLogprobs | null;
  /** Loaded by the first refresh. */
  #marks: RunMarks | null = null;
  readonly #isReadOnly: boolean;
  readonly #attribute: NonNullable<RunViewOptions["attribute"]> | null;
  /** Attributions that `eval` wrote beside the run, by task and trial. */
  #scored: ReadonlyMap<string, RowFault> | null = null;
  /** Number of rows whose failures were attributed. */
  #attributed = 0;
  /** Extracts of rows that were shown, by number. */
  #extracts = new Map<number, EpisodeExtract>();
  #rows: Row[] = [];
  #masks: { checked: number; withoutTokens: number; wrong: number[] } = { checked: 0, withoutTokens: 0, wrong: [] };
  #compared: TrainerComparison | null;
  #summary: { readonly version: string; readonly value: ReturnType<typeof summaryOf> } | null = null;
  #refreshed = -Infinity;
  #refreshing: Promise<void> | null = null;
  #reading: Promise<void> | null = null;
  #isClosed = false;

  constructor(
    store: EpisodeStore,
    key: string,
    { trainer = null, attribute = null, isReadOnly = false }: RunViewOptions = {},
  ) {
    this.store = store;
    this.#isReadOnly = isReadOnly;
    this.#attribute = attribute;
    this.key = key;
    this.#trainer = trainer;
    this.#compared = trainer === null ? null : new TrainerComparison(trainer);
  }

  get facts(): RunFacts {
    return { key: this.key, ...this.store.facts, readOnly: this.#marks?.readOnly ?? null };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    // Reads in progress hold a file open.
    await this.#refreshing?.catch(() => undefined);
    await this.#reading?.catch(() => undefined);
    await this.store.close();
  }

  /** Refreshes the run, unless that was a moment ago, and continues to read in the background. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#refreshed < refreshMs) return;
    this.#refreshing ??= (async () => {
      if (!(await this.store.refresh())) this.#forget();
      await (await this.#openMarks()).refresh();
      this.#refreshed = performance.now();
      this.#reading ??= this.#readOn().finally(() => (this.#reading = null));
      // The next request reports what could not be read.
      this.#reading.catch(() => undefined);
    })().finally(() => (this.#refreshing = null));
    await this.#refreshing;
  }

  /** Waits until every episode is read. */
  async readAll(): Promise<void> {
    await this.refresh();
    await this.#reading;
  }

  async summary(): Promise<Summary> {
    await this.refresh();
    // A small run is read completely by then.
    if (this.#rows.length < this.store.count) await Promise.race([this.#reading, setTimeout(firstSliceMs)]);
    const { count: episodes, facts } = { count: this.store.count, facts: this.facts };
    const read = this.#rows.length;
    const masks = this.#maskCheck();
    const counted = `${read}`;
    if (this.#summary?.version !== counted) this.#summary = { version: counted, value: summaryOf(this.#rows) };
    const open = await this.#openMarks();
    const marks = open.summary(this.#rows, `${read} ${this.#attributed}`);
    const version = [episodes, read, masks.checked, this.#attributed, facts.status, open.version].join("-");
    const trainer = this.#compared?.check(masks.isDone) ?? null;
    const faults = this.#canAttribute
      ? { counts: faultCounts(this.#rows), isDone: this.#attributed >= episodes }
      : null;
    return { facts, version, read, episodes, masks, trainer, faults, marks, ...this.#summary.value };
  }

  /** Rejects with a `WhereError` for an expression that cannot be read. */
  async rows(query: RowQuery): Promise<RowPage> {
    await this.refresh();
    const { where, reason, task, sort = "-number", from, count, after } = query;
    const total = this.store.count;
    const read = this.#rows;
    const version = `${total}-${read.length}-${this.#attributed}`;
    const unread = total - read.length;
    if (where === undefined && reason === undefined && task === undefined && sort === "-number") {
      // Only the shown rows are needed.
      const end = Math.max(0, total - from);
      const isContinued = after !== undefined && from === 0 && read[after.number - 1]?.id === after.id;
      const start = Math.max(0, end - count, isContinued ? after.number : 0);
      const rows = end <= read.length ? read.slice(start, end) : await this.store.rows(start, end);
      return { version, total, matched: total, unread, rows: rows.toReversed(), isContinued };
    }
    let found: readonly Row[] = read;
    if (where !== undefined) {
      const kept: Row[] = [];
      for await (const place of this.store.filter(where)) if (read[place] !== undefined) kept.push(read[place]);
      found = kept;
    }
    found = found.filter(
      (row) =>
        (task === undefined || wellFormed(row.taskId) === wellFormed(task)) &&
        (reason === undefined || (reason.kind === "mark" ? this.#isMarked(row, reason.label) : hasReason(row, reason))),
    );
    const rows = sorted([...found], sort).slice(from, from + count);
    return { version, total, unread, matched: found.length, rows, isContinued: false };
  }

  async tasks(query: { readonly never: boolean; readonly from: number; readonly count: number }): Promise<TaskPage> {
    await this.refresh();
    const all = taskRows(this.#rows);
    const found = query.never ? all.filter(({ graded, passed }) => graded > 0 && passed === 0) : all;
    found.sort((a, b) => (a.meanReward ?? 2) - (b.meanReward ?? 2));
    return { tasks: found.slice(query.from, query.from + query.count), matched: found.length, total: all.length };
  }

  /**
   * Finds an episode by number or id; gives its line as it was written. Throws a
   * `ConfigurationError` if there is none.
   */
  async episode(name: string): Promise<EpisodePage<Buffer>> {
    await this.refresh();
    const place = await this.#placeOf(name);
    const line = await this.store.line(place);
    const row = this.#rows[place] ?? (await this.store.rows(place, place + 1))[0]!;
    const group = this.#rows
      .filter(({ groupId }) => groupId === row.groupId)
      .concat(this.#rows.length > place ? [] : [row])
      .sort((a, b) => a.sampleIndex - b.sampleIndex);
    const next = place + 2 <= this.store.count ? place + 2 : null;
    const trainer = this.#trainer === null ? null : linesOfEpisode(this.#trainer, row.id);
    const mark = this.#marks?.of(row) ?? null;
    return { row, group, previous: place > 0 ? place : null, next, trainer, mark, episode: line };
  }

  /**
   * Marks an episode, by its number or id; `null` takes the mark back. Rejects with a
   * `ConfigurationError` if the run lacks the episode, or the mark cannot be kept.
   */
  async mark(name: string, mark: Omit<Mark, "at"> | null): Promise<Mark | null> {
    await this.refresh();
    const place = await this.#placeOf(name);
    const row = this.#rows[place] ?? (await this.store.rows(place, place + 1))[0]!;
    return (await this.#openMarks()).set(row, mark);
  }

  /** The marks as labels of `eval --labels`. */
  async labels(): Promise<MarkLabels> {
    await this.readAll();
    return (await this.#openMarks()).labels(this.#rows, this.facts.name);
  }

  async #openMarks(): Promise<RunMarks> {
    const { RunMarks: Marks } = await import("./run-marks.ts");
    const { location, kind } = this.facts;
    return (this.#marks ??= new Marks(location, { isFile: kind === "file", isReadOnly: this.#isReadOnly }));
  }

  #isMarked(row: Row, label: string): boolean {
    return (this.#marks?.of(row)?.verdict ?? "unmarked") === label;
  }

  /** All rows of a group, in the order of their place in it. */
  async group(groupId: string): Promise<readonly Row[]> {
    await this.readAll();
    const found = this.#rows.filter((row) => wellFormed(row.groupId) === wellFormed(groupId));
    return found.sort((a, b) => a.sampleIndex - b.sampleIndex);
  }

  /** Extracts of the episodes with these numbers; those that cannot be read are absent. */
  async extracts(
    numbers: readonly number[],
  ): Promise<readonly { readonly number: number; readonly extract: EpisodeExtract }[]> {
    await this.refresh();
    const found: { number: number; extract: EpisodeExtract }[] = [];
    for (const number of numbers) {
      const known = this.#rows[number - 1]?.extract ?? this.#extracts.get(number);
      const extract = known ?? (await this.#readExtract(number));
      if (extract !== null) found.push({ number, extract });
    }
    return found;
  }

  async #readExtract(number: number): Promise<EpisodeExtract | null> {
    if (number < 1 || number > this.store.count) return null;
    try {
      const extract = extractOf(JSON.parse((await this.store.line(number - 1)).toString("utf8")) as StoredEpisode);
      if (this.#extracts.size >= mostExtracts) this.#extracts.clear();
      this.#extracts.set(number, extract);
      return extract;
    } catch {
      // The page of the episode says what is wrong with it.
      return null;
    }
  }

  /** Every row, once all are read. */
  async allRows(): Promise<readonly Row[]> {
    await this.readAll();
    return this.#rows;
  }

  /**
   * Yields episodes that contain the text in a message, call or result, as they are found. Returns
   * the end of the search.
   */
  async *search(text: string, signal: AbortSignal): AsyncGenerator<Hit, SearchEnd> {
    await this.refresh();
    const episodes = this.store.count;
    let hits = 0;
    for await (const hit of this.store.search(text)) {
      yield hit;
      hits++;
      if (hits >= mostHits || signal.aborted) return { episodes, hits, isWhole: false };
    }
    return { episodes, hits, isWhole: true };
  }

  async #placeOf(name: string): Promise<number> {
    const number = /^\d+$/.test(name) ? Number(name) : null;
    if (number !== null && number >= 1 && number <= this.store.count) return number - 1;
    let row = this.#rows.find(({ id }) => id === name);
    if (row === undefined && this.#rows.length < this.store.count) {
      await this.readAll();
      row = this.#rows.find(({ id }) => id === name);
    }
    if (row !== undefined) return row.number - 1;
    throw new ConfigurationError(
      `Cannot find episode ${JSON.stringify(name.slice(0, 200))}: the run has ${this.store.count} episodes; use a number from 1, or an id.`,
    );
  }

  /** Reads rows first, then masks; pauses every few milliseconds for other work. */
  async #readOn(): Promise<void> {
    while (!this.#isClosed && this.#rows.length < this.store.count) {
      const from = this.#rows.length;
      const rows = await this.store.rows(from, from + batchRows);
      // The run was replaced in the meantime.
      if (this.#rows.length !== from || rows.length === 0) return;
      this.#rows.push(...rows);
      await setImmediate();
    }
    let started = performance.now();
    while (!this.#isClosed && this.#masks.checked < this.store.count) {
      const masks = this.#masks;
      const line = await this.store.line(masks.checked).catch(() => null);
      if (masks !== this.#masks) return;
      this.#checkMask(line, masks.checked + 1);
      if (performance.now() - started < sliceMs) continue;
      await setImmediate();
      started = performance.now();
    }
    await (await this.#openMarks()).readSayings(this.#rows, (place) => this.store.line(place));
    await this.#attributeFaults();
  }

  get #canAttribute(): boolean {
    return this.#attribute !== null && this.facts.kind !== "file";
  }

  /** Attributes the failures of unsuccessful episodes, as `eval` did or by its rules. */
  async #attributeFaults(): Promise<void> {
    const attribute = this.#attribute;
    if (attribute === null || !this.#canAttribute) return;
    const rows = this.#rows;
    this.#scored ??= await readScoredFaults(this.facts.location);
    let started = performance.now();
    for (; !this.#isClosed && this.#attributed < rows.length; this.#attributed++) {
      const at = this.#attributed;
      const row = rows[at]!;
      if (!isUnsuccessful(row)) continue;
      let fault = this.#scored.get(scoreKey(row)) ?? null;
      if (fault === null) {
        const line = await this.store.line(at).catch(() => null);
        fault = line === null ? null : await attribute(line, this.facts.location).catch(() => null);
      }
      // The run was replaced in the meantime.
      if (this.#rows !== rows) return;
      rows[at] = { ...row, fault };
      if (performance.now() - started < sliceMs) continue;
      await setImmediate();
      started = performance.now();
    }
  }

  /** `null` if the line differs from what was written. */
  #checkMask(line: Buffer | null, number: number): void {
    const masks = this.#masks;
    masks.checked++;
    try {
      const episode = decodeEpisode(JSON.parse(line?.toString("utf8") ?? "") as StoredEpisode);
      if (episode.historyPolicy === "no-tokens") masks.withoutTokens++;
      // Turns of other tools' files are made from their masks, so there is nothing to check.
      const isChecked = this.facts.kind !== "file" && episode.historyPolicy !== "no-tokens";
      if (!isChecked && this.#compared === null) return;
      const samples = samplesOf(episode);
      if (isChecked && samples.violation !== null && masks.wrong.length < mostWrong) masks.wrong.push(number);
      this.#compared?.add(number, episode.id, samples);
    } catch {
      if (masks.wrong.length < mostWrong) masks.wrong.push(number);
    }
  }

  #maskCheck(): MaskCheck {
    return { ...this.#masks, wrong: [...this.#masks.wrong], isDone: this.#masks.checked >= this.store.count };
  }

  #forget(): void {
    this.#rows = [];
    this.#masks = { checked: 0, withoutTokens: 0, wrong: [] };
    this.#compared = this.#trainer === null ? null : new TrainerComparison(this.#trainer);
    this.#summary = null;
    this.#scored = null;
    this.#attributed = 0;
    this.#marks?.forget();
    this.#extracts.clear();
  }
}

/** Sorts unknown values last, and equal ones in the order of the run. */
function sorted(rows: Row[], sort: string): Row[] {
  const isFalling = sort.startsWith("-");
  const column = sort.replace(/^-/, "") as keyof Row;
  const sign = isFalling ? -1 : 1;
  const value = (row: Row): number | string | null => {
    const found = row[column];
    return typeof found === "number" || typeof found === "string" ? found : null;
  };
  return rows.sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (left === right) return sign * (a.number - b.number);
    if (left === null || right === null) return left === null ? 1 : -1;
    return sign * (left < right ? -1 : 1);
  });
}
