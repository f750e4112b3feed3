// The marks of one run: its annotations with the rows that they belong to, what judges said of those
// episodes, and the labels that `eval --labels` reads.

import { basename } from "node:path";
import { setImmediate } from "node:timers/promises";
import { ConfigurationError } from "../core/index.ts";
import { annotationPath, Annotations } from "./annotations.ts";
import { agreementWith, type Saying, sayingsOf } from "./judge-agreement.ts";
import type { Mark, MarkLabels, MarkSummary, PlainJson, Row } from "./wire/index.ts";

/** Marked episodes whose records are read; of more marks only the counts are known. */
const mostMarked = 5000;

export class RunMarks {
  readonly #annotations: Annotations;
  readonly #isReadOnly: boolean;
  readonly #isFile: boolean;
  #readOnly: string | null = null;
  #sayings = new Map<string, readonly Saying[]>();
  #summary: { readonly key: string; readonly value: MarkSummary } | null = null;

  /** `location`: a run folder, or a file or folder of another tool. */
  constructor(location: string, { isFile, isReadOnly }: { readonly isFile: boolean; readonly isReadOnly: boolean }) {
    this.#annotations = new Annotations(annotationPath(location));
    this.#isFile = isFile;
    this.#isReadOnly = isReadOnly;
  }

  /** Why no mark can be kept, as of the last refresh; `null` if one can. */
  get readOnly(): string | null {
    return this.#readOnly;
  }

  get version(): string {
    return `${this.#annotations.version}:${this.#sayings.size}`;
  }

  of(row: Row): Mark | null {
    return this.#annotations.marks.get(row.id) ?? null;
  }

  async refresh(): Promise<void> {
    await this.#annotations.refresh();
    this.#readOnly = this.#isReadOnly
      ? "Marks cannot be kept: the viewer was started with --read-only. Start it without."
      : await this.#annotations.obstacle();
  }

  /** Keeps a mark; `null` takes it back. Rejects with a `ConfigurationError` if it cannot be kept. */
  async set(row: Row, mark: Omit<Mark, "at"> | null): Promise<Mark | null> {
    await this.refresh();
    if (this.#readOnly !== null) throw new ConfigurationError(this.#readOnly);
    await this.#annotations.add(row, mark);
    return this.of(row);
  }

  /** Reads what judges said of marked episodes; pauses for other work. */
  async readSayings(rows: readonly Row[], line: (place: number) => Promise<Buffer>): Promise<void> {
    for (const row of this.#marked(rows)) {
      if (this.#sayings.has(row.id)) continue;
      let sayings: readonly Saying[] = [];
      try {
        const stored = JSON.parse((await line(row.number - 1)).toString("utf8")) as PlainJson;
        sayings = sayingsOf(stored, { isFile: this.#isFile });
      } catch {
        // The page of the episode says what is wrong with it.
      }
      this.#sayings.set(row.id, sayings);
      await setImmediate();
    }
  }

  forget(): void {
    this.#sayings = new Map();
    this.#summary = null;
  }

  /** `key` differs after every change of the rows. */
  summary(rows: readonly Row[], key: string): MarkSummary {
    const version = `${this.version} ${key}`;
    if (this.#summary?.key === version) return this.#summary.value;
    const { marks: all, fault, unreadable, path } = this.#annotations;
    const marked = this.#marked(rows).map((row) => ({
      row,
      mark: all.get(row.id)!,
      sayings: this.#sayings.get(row.id) ?? null,
    }));
    let known = 0;
    const counts = { right: 0, wrong: 0 };
    for (const row of rows) {
      const mark = all.get(row.id);
      if (mark === undefined) continue;
      known++;
      counts[mark.verdict]++;
    }
    const value: MarkSummary = {
      file: basename(path),
      fault,
      ...counts,
      labels: this.labels(rows, "").labels.length,
      unknown: all.size - known,
      unreadable,
      marks: Object.fromEntries(marked.map(({ row, mark }) => [row.number, mark])),
      agreement: agreementWith(marked.map((one) => ({ ...one, sayings: one.sayings ?? [] }))),
      isDone: marked.every(({ sayings }) => sayings !== null),
    };
    this.#summary = { key: version, value };
    return value;
  }

  labels(rows: readonly Row[], run: string): MarkLabels {
    const labels: MarkLabels["labels"][number][] = [];
    let leftOut = 0;
    for (const row of rows) {
      const mark = this.of(row);
      if (mark === null) continue;
      // τ-bench and others name tasks by their numbers.
      const task = row.taskIndex ?? (/^\d{1,9}$/.test(row.taskId) ? Number(row.taskId) : null);
      if (task === null || mark.fault === null) leftOut++;
      else {
        const { sampleIndex: trial, id: episode } = row;
        labels.push({ task, trial, label: mark.fault, reason: mark.why, episode });
      }
    }
    return { run, left_out: leftOut, labels };
  }

  #marked(rows: readonly Row[]): Row[] {
    const { marks } = this.#annotations;
    if (marks.size === 0) return [];
    return rows.filter(({ id }) => marks.has(id)).slice(0, mostMarked);
  }
}
