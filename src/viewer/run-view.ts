// A run as the viewer serves it: rows of its episodes, one whole episode, its text token by token, a search of all messages. Rows and
// masks are read in the background in short slices, newest answers first: what is asked for is read at once.

import { setImmediate, setTimeout } from "node:timers/promises";
import { ConfigurationError } from "../core/index.ts";
import { parseWhere, type WhereFields } from "../store/index.ts";
import { rowOf } from "./episode-row.ts";
import type { EpisodeStore } from "./episode-store.ts";
import { hasReason, summaryOf, taskRows } from "./summary.ts";
import { decodeEpisode, samplesOf } from "./wire/index.ts";
import type {
  EpisodePage,
  Hit,
  MaskCheck,
  Reason,
  Row,
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
  /** A column; the name with a minus in front: the largest first. @default "-number" */
  readonly sort?: string;
  readonly from: number;
  readonly count: number;
};

/** Lines read at once, and for how long before others have their turn. */
const batchLines = 64;
const sliceMs = 10;
/** Between two looks at a file. */
const refreshMs = 200;
/** How long a first answer waits for what is being read. */
const firstSliceMs = 100;
const mostWrong = 20;
const mostHits = 1000;
const excerptCharacters = 70;

export class RunView {
  readonly store: EpisodeStore;
  readonly index: number;
  #rows: Row[] = [];
  #masks: { checked: number; withoutTokens: number; wrong: number[] } = { checked: 0, withoutTokens: 0, wrong: [] };
  #summary: { readonly version: string; readonly value: ReturnType<typeof summaryOf> } | null = null;
  #refreshed = -Infinity;
  #refreshing: Promise<void> | null = null;
  #reading: Promise<void> | null = null;
  #isClosed = false;

  constructor(store: EpisodeStore, index: number) {
    this.store = store;
    this.index = index;
  }

  get facts(): RunFacts {
    return { index: this.index, ...this.store.facts };
  }

  close(): void {
    this.#isClosed = true;
  }

  /** Looks at the run again, unless that was a moment ago, and reads on in the background. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#refreshed < refreshMs) return;
    this.#refreshing ??= (async () => {
      if (!(await this.store.refresh())) this.#forget();
      this.#refreshed = performance.now();
      this.#reading ??= this.#readOn().finally(() => (this.#reading = null));
      // Whoever asks next is told what could not be read.
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
    // Of a small run all is read by then.
    if (this.#rows.length < this.store.count) await Promise.race([this.#reading, setTimeout(firstSliceMs)]);
    const { count: episodes, facts } = { count: this.store.count, facts: this.facts };
    const read = this.#rows.length;
    const masks = this.#maskCheck();
    const counted = `${read}`;
    if (this.#summary?.version !== counted) this.#summary = { version: counted, value: summaryOf(this.#rows) };
    const version = [episodes, read, masks.checked, facts.status].join("-");
    return { facts, version, read, episodes, masks, ...this.#summary.value };
  }

  /** Throws a `WhereError` for an expression that cannot be read. */
  async rows(query: RowQuery): Promise<RowPage> {
    await this.refresh();
    const { where, reason, task, sort = "-number", from, count } = query;
    const { episodes: total, version } = {
      episodes: this.store.count,
      version: `${this.store.count}-${this.#rows.length}`,
    };
    const isPlain = where === undefined && reason === undefined && task === undefined;
    const unread = total - this.#rows.length;
    if (isPlain && (sort === "-number" || sort === "number")) {
      // Needs no row but those that are shown.
      const places = Array.from({ length: Math.max(0, Math.min(count, total - from)) }, (_, at) =>
        sort === "number" ? from + at : total - 1 - from - at,
      );
      return { version, total, matched: total, unread, rows: await this.#rowsAt(places) };
    }
    const keep = where === undefined ? null : parseWhere(where);
    const means = keep === null ? null : groupMeans(this.#rows);
    const found = this.#rows.filter(
      (row) =>
        (task === undefined || row.taskId === task) &&
        (reason === undefined || hasReason(row, reason)) &&
        (keep === null || keep(fieldsOf(row, this.store.facts, means!))),
    );
    return { version, total, unread, matched: found.length, rows: sorted(found, sort).slice(from, from + count) };
  }

  async tasks(query: { readonly never: boolean; readonly from: number; readonly count: number }): Promise<TaskPage> {
    await this.refresh();
    const all = taskRows(this.#rows);
    const found = query.never ? all.filter(({ graded, passed }) => graded > 0 && passed === 0) : all;
    found.sort((a, b) => (a.meanReward ?? 2) - (b.meanReward ?? 2));
    return { tasks: found.slice(query.from, query.from + query.count), matched: found.length, total: all.length };
  }

  /** By number or id; its line as it was written. Throws a `ConfigurationError` when there is none. */
  async episode(name: string): Promise<EpisodePage<Buffer>> {
    await this.refresh();
    const place = await this.#placeOf(name);
    const [line] = await this.store.lines(place, place + 1);
    const row = rowOf(line!, place + 1);
    const group = this.#rows
      .filter(({ groupId }) => groupId === row.groupId)
      .concat(this.#rows.length > place ? [] : [row])
      .sort((a, b) => a.sampleIndex - b.sampleIndex);
    const next = place + 2 <= this.store.count ? place + 2 : null;
    return { row, group, previous: place > 0 ? place : null, next, episode: line! };
  }

  /** All rows of a group, in the order of their place in it. */
  async group(groupId: string): Promise<readonly Row[]> {
    await this.readAll();
    return this.#rows.filter((row) => row.groupId === groupId).sort((a, b) => a.sampleIndex - b.sampleIndex);
  }

  /** Every row, once all are read. */
  async allRows(): Promise<readonly Row[]> {
    await this.readAll();
    return this.#rows;
  }

  /** Episodes with the text in what was said, called or answered, newest first, as they are found. Its end comes back. */
  async *search(text: string, signal: AbortSignal): AsyncGenerator<Hit, SearchEnd> {
    await this.refresh();
    // As it stands in the file, whose strings are escaped; what is left is searched as text.
    const needle = Buffer.from(JSON.stringify(text).slice(1, -1));
    let hits = 0;
    const { count } = this.store;
    const step = 512;
    for (let end = count; end > 0; end -= step) {
      const start = Math.max(0, end - step);
      const lines = await this.store.lines(start, end);
      for (let at = lines.length - 1; at >= 0; at--) {
        if (!lines[at]!.includes(needle)) continue;
        const hit = hitIn(lines[at]!, text, start + at + 1);
        if (hit === null) continue;
        yield hit;
        if (++hits >= mostHits) return { episodes: count - start, hits, isWhole: false };
      }
      await setImmediate();
      if (signal.aborted) return { episodes: count - start, hits, isWhole: false };
    }
    return { episodes: count, hits, isWhole: true };
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
      `Cannot find episode ${JSON.stringify(name.slice(0, 200))}: the run has ${this.store.count} episodes; give a number from 1 on, or an id.`,
    );
  }

  async #rowsAt(places: readonly number[]): Promise<Row[]> {
    if (places.length === 0) return [];
    const first = Math.min(...places);
    const isRead = places.every((place) => place < this.#rows.length);
    const lines = isRead ? [] : await this.store.lines(first, Math.max(...places) + 1);
    return places.map((place) => this.#rows[place] ?? rowOf(lines[place - first]!, place + 1));
  }

  async #readOn(): Promise<void> {
    await this.#inSlices(
      () => this.#rows.length,
      (line, place) => void this.#rows.push(rowOf(line, place + 1)),
    );
    await this.#inSlices(
      () => this.#masks.checked,
      (line, place) => this.#checkMask(line, place + 1),
    );
  }

  /** Takes the lines that are there from `next()` on, a slice at a time. */
  async #inSlices(next: () => number, take: (line: Buffer, place: number) => void): Promise<void> {
    let started = performance.now();
    while (!this.#isClosed && next() < this.store.count) {
      const from = next();
      for (const [at, line] of (await this.store.lines(from, from + batchLines)).entries()) {
        // The file was replaced meanwhile.
        if (next() !== from + at) break;
        take(line, from + at);
        if (performance.now() - started < sliceMs) continue;
        await setImmediate();
        started = performance.now();
      }
    }
  }

  #checkMask(line: Buffer, number: number): void {
    const masks = this.#masks;
    masks.checked++;
    try {
      const episode = decodeEpisode(JSON.parse(line.toString("utf8")) as StoredEpisode);
      if (episode.historyPolicy === "no-tokens") masks.withoutTokens++;
      else if (samplesOf(episode).violation !== null && masks.wrong.length < mostWrong) masks.wrong.push(number);
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
    this.#summary = null;
  }
}

function groupMeans(rows: readonly Row[]): ReadonlyMap<string, number> {
  const sums = new Map<string, { sum: number; graded: number }>();
  for (const { groupId, reward } of rows) {
    if (reward === null) continue;
    const { sum, graded } = sums.get(groupId) ?? { sum: 0, graded: 0 };
    sums.set(groupId, { sum: sum + reward, graded: graded + 1 });
  }
  return new Map([...sums].map(([id, { sum, graded }]) => [id, sum / graded]));
}

function fieldsOf(
  row: Row,
  {
    environment,
    split,
    historyPolicy,
  }: { environment: string | null; split: string | null; historyPolicy: string | null },
  means: ReadonlyMap<string, number>,
): WhereFields {
  return {
    ...{ reward: row.reward, outcome: row.outcome, stop_reason: row.stopReason, environment, split },
    ...{ task_id: row.taskId, task_index: null, group_id: row.groupId, group_mean: means.get(row.groupId) ?? null },
    ...{ decision: null, episode_id: row.id, sample_index: row.sampleIndex, run: null, turns: row.turns },
    ...{ tokens: row.tokens, sampled_tokens: row.sampledTokens, samples: null, history_policy: historyPolicy },
    problems: Object.values(row.formatErrors).reduce((sum, count) => sum + count, 0),
  };
}

/** Unknown values last, equal ones in the order of the run. */
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

/** `null`: it stands in names or packed tokens alone. */
function hitIn(line: Buffer, text: string, number: number): Hit | null {
  let episode: StoredEpisode;
  try {
    episode = JSON.parse(line.toString("utf8")) as StoredEpisode;
  } catch {
    return null;
  }
  for (const said of textsOf(episode)) {
    const at = said.indexOf(text);
    if (at === -1) continue;
    const end = at + text.length;
    return {
      ...{ number, id: episode.id, reward: episode.reward },
      before: said.slice(Math.max(0, at - excerptCharacters), at),
      match: said.slice(at, end),
      after: said.slice(end, end + excerptCharacters),
    };
  }
  return null;
}

/** What people read of an episode: without its system text, which all episodes share, unless nothing else was recorded. */
function* textsOf({ messages, events, grade, failure }: StoredEpisode): Generator<string> {
  for (const event of events) {
    if (event.type === "user-line") yield event.line.text;
    else if (event.type === "decision") yield event.action.text;
    else if (event.type === "tool-result") yield event.result.text;
    else if (event.type === "exchange") {
      yield event.action.text;
      for (const { content } of event.messages) yield content;
    } else if (event.type === "judgement") yield event.judgement.answer ?? "";
    else if (event.type === "user-outcome") for (const { text } of event.outcome.results) yield text;
  }
  for (const { role, content } of messages) if (role !== "system") yield content;
  if (grade !== null) yield grade.log;
  if (failure !== null) yield failure.message;
}
