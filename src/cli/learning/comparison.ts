// Before and after on the same tasks: pass rates with their intervals, by kind, and the gain, whose interval comes from the
// differences task by task. Pure numbers, and the table that shows them.

import { differenceInterval, type Interval, rateInterval } from "../../graders/index.ts";
import { textTable } from "../../lib/text.ts";
import type { TaskOutcome } from "./evaluate-policy.ts";

export type ComparedKind = {
  /** "all" for all of them together. */
  readonly kind: string;
  readonly tasks: number;
  readonly before: number;
  readonly beforeInterval: Interval | null;
  readonly after: number;
  readonly afterInterval: Interval | null;
  readonly gain: number;
  readonly gainInterval: Interval | null;
  /** An episode; `null`: the environment counts none. */
  readonly violationsBefore: number | null;
  readonly violationsAfter: number | null;
};

/** All tasks first, then each kind. `before` and `after` are of the same tasks in the same order. */
export function compare(before: readonly TaskOutcome[], after: readonly TaskOutcome[]): readonly ComparedKind[] {
  const kinds = [...new Set(before.map(({ kind }) => kind))];
  const places = [...before.keys()];
  const all = compareSome("all", places, { before, after });
  if (kinds.length < 2) return [all];
  return [
    all,
    ...kinds.map((kind) =>
      compareSome(
        kind,
        places.filter((place) => before[place]!.kind === kind),
        { before, after },
      ),
    ),
  ];
}

function compareSome(
  kind: string,
  places: readonly number[],
  { before, after }: { readonly before: readonly TaskOutcome[]; readonly after: readonly TaskOutcome[] },
): ComparedKind {
  const [first, last] = [before, after].map((outcomes) => places.map((place) => outcomes[place]!.passed));
  const gains = places.map((place) => after[place]!.passed - before[place]!.passed);
  return {
    kind,
    tasks: places.length,
    before: mean(first!),
    beforeInterval: rateInterval(first!),
    after: mean(last!),
    afterInterval: rateInterval(last!),
    gain: mean(gains),
    gainInterval: differenceInterval(gains),
    violationsBefore: violations(places, before),
    violationsAfter: violations(places, after),
  };
}

function violations(places: readonly number[], outcomes: readonly TaskOutcome[]): number | null {
  const counts = places.flatMap((place) => outcomes[place]!.ruleViolations ?? []);
  return counts.length === 0 ? null : mean(counts);
}

/** As lines; intervals are at 95 %. */
export function comparisonTable(rows: readonly ComparedKind[]): string[] {
  const hasViolations = rows.some(({ violationsBefore }) => violationsBefore !== null);
  return textTable(
    [
      { title: "tasks", align: "left" },
      { title: "n", align: "right" },
      { title: "before", align: "right" },
      { title: "95 %", align: "right" },
      { title: "after", align: "right" },
      { title: "95 %", align: "right" },
      { title: "gain", align: "right" },
      { title: "95 %", align: "right" },
      ...(hasViolations ? [{ title: "violations an episode", align: "right" } as const] : []),
    ],
    rows.map((row) => [
      row.kind,
      String(row.tasks),
      percent(row.before),
      interval(row.beforeInterval, false),
      percent(row.after),
      interval(row.afterInterval, false),
      signed(row.gain),
      interval(row.gainInterval, true),
      ...(hasViolations ? [`${show(row.violationsBefore)} -> ${show(row.violationsAfter)}`] : []),
    ]),
  );
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

function percent(share: number): string {
  return (share * 100).toFixed(1);
}

function signed(share: number): string {
  return `${share < 0 ? "" : "+"}${percent(share)}`;
}

function interval(bounds: Interval | null, isGain: boolean): string {
  if (bounds === null) return "";
  const text = isGain ? signed : percent;
  return `${text(bounds.low)} to ${text(bounds.high)}`;
}

function show(value: number | null): string {
  return value === null ? "–" : value.toFixed(3);
}
