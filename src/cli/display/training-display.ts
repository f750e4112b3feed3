// Display of a training: in a terminal a chart that repaints itself, elsewhere one line a step,
// both on stderr, so that stdout holds only results; and the table of before and after.

import type { Interval } from "../../graders/index.ts";
import type { ComparedKind, PassRateCurve, StepMetrics, TrainingProgress } from "../../learner/index.ts";
import { textTable, wrapLines } from "../../lib/text.ts";
import type { CliContext } from "../cli-context.ts";
import type { Painter } from "./progress-display.ts";
import { type Colours, coloursFor, formatDuration, formatPercent, oneMessage, terminalText } from "./terminal-text.ts";

export interface TrainingDisplay {
  update(progress: TrainingProgress): void;
  /** Prints a permanent line. */
  note(line: string): void;
  /** Keeps the last state on the screen, and releases the terminal. */
  stop(): void;
}

export function createTrainingDisplay(
  context: Pick<CliContext, "stderr" | "env">,
  options: { readonly quiet: boolean; readonly painter: Painter | null },
): TrainingDisplay {
  const { stderr, env } = context;
  const note = (line: string): void => void stderr.write(`${oneMessage(line)}\n`);
  if (options.quiet) return { update: () => undefined, note, stop: () => undefined };
  const { painter } = options;
  return painter === null ? plainDisplay(note) : liveDisplay(stderr, coloursFor(stderr, env), painter);
}

function plainDisplay(note: (line: string) => void): TrainingDisplay {
  let shown = 0;
  return {
    update: ({ metrics }) => {
      const step = metrics?.["step"] ?? 0;
      if (metrics === null || step <= shown) return;
      shown = step;
      note(stepLine(metrics));
    },
    note,
    stop: () => undefined,
  };
}

function liveDisplay(stderr: CliContext["stderr"], colours: Colours, painter: Painter): TrainingDisplay {
  const block = painter(process.stderr, { showCursor: true });
  const shown = (text: string): string => terminalText(text, colours.isColorSupported);
  let latest: TrainingProgress | null = null;
  const paint = (): void => {
    if (latest !== null) block(shown(trainingBlock(latest, colours, process.stderr.columns)));
  };
  return {
    update: (progress) => {
      latest = progress;
      paint();
    },
    note: (line) => {
      block.clear();
      stderr.write(`${oneMessage(line)}\n`);
      paint();
    },
    stop: () => {
      // A small curve stays above the table of results; the table holds the last step and the time.
      if (latest !== null) block(trainingChart(latest.curve, colours, { columns: process.stderr.columns, height: 5 }));
      block.done();
    },
  };
}

/** The block: the curve, the last step, the time. */
export function trainingBlock(progress: TrainingProgress, colours: Colours, columns = 80): string {
  const { curve, metrics, activity, elapsedMs, budgetMs } = progress;
  const width = widthOf(columns);
  return [
    trainingChart(curve, colours, { columns, height: 11 }),
    ...(metrics === null ? [] : wrapLines(stepLine(metrics), width)),
    ...wrapLines(`${activity}  ${formatDuration(elapsedMs)} of ${formatDuration(budgetMs)}`, width),
  ].join("\n");
}

/** The last column stays empty: some terminals wrap there. */
function widthOf(columns: number): number {
  return Math.max(20, columns - 1);
}

/**
 * The curve and its legend; only an empty line before the first point. `height`: lines of the
 * curve.
 */
function trainingChart(
  curve: PassRateCurve,
  colours: Colours,
  { columns = 80, height }: { readonly columns?: number | undefined; readonly height: number },
): string {
  const width = widthOf(columns);
  const hasPoints = curve.training.length + curve.evaluations.length > 0;
  const shown = [
    ...(curve.training.length > 0 ? ["─ pass rate of the steps, smoothed"] : []),
    ...(curve.evaluations.length > 0 ? ["◆ on held-out tasks"] : []),
    ...(curve.greedy.length > 0 ? ["◇ greedily"] : []),
  ];
  return [
    ...(hasPoints ? terminalChart(curve, { width, height }, colours) : []),
    ...wrapLines(shown.join("   "), width).map(colours.dim),
  ].join("\n");
}

/** One step in one line, within 80 columns if it has no evaluation; metrics.csv has the rest. */
export function stepLine(metrics: StepMetrics): string {
  const value = (name: string): number | null => metrics[name] ?? null;
  const show = (name: string, digits: number): string => value(name)?.toFixed(digits) ?? "–";
  const seconds = (value("rollout_seconds") ?? 0) + (value("train_seconds") ?? 0);
  const parts = [
    `step ${show("step", 0)}`,
    ...(value("pass_rate") === null ? [] : [`pass ${formatPercent(value("pass_rate"))}`]),
    ...(value("groups") === null ? [] : [`${show("live_groups", 0)} of ${show("groups", 0)} groups live`]),
    `loss ${show("loss", 3)}`,
    `entropy ${show("entropy", 2)}`,
    `${seconds.toFixed(1)} s`,
  ];
  const [held, greedy] = [value("held_out_pass_rate"), value("held_out_greedy")];
  return [
    ...parts,
    ...(held === null ? [] : [`held-out ${formatPercent(held)}`]),
    ...(greedy === null ? [] : [`greedily ${formatPercent(greedy)}`]),
  ].join(", ");
}

type ChartSize = { readonly width: number; readonly height: number };

const axisWidth = 7;
/** Share of all steps whose mean is a point of the line: a line through each step would be noise. */
const smoothedShare = 0.08;

/**
 * Pass rates over steps as lines of text: one smoothed line through the steps; a filled diamond for
 * each evaluation of held-out tasks, an empty one for a greedy evaluation, neither of them
 * smoothed. `height` lines of curve and one of steps. The vertical axis goes from 0 to the next ten
 * per cent above all points, and each of its labels is exactly the rate of that line.
 */
export function terminalChart(
  { training, evaluations, greedy }: PassRateCurve,
  { width, height }: ChartSize,
  colours: Pick<Colours, "dim" | "cyan" | "green"> = coloursFor({ write: () => undefined }, {}),
): string[] {
  const columns = Math.max(10, width - axisWidth);
  const points = [...training, ...evaluations, ...greedy];
  const last = Math.max(1, ...points.map(({ step }) => step));
  const highest = Math.max(0.1, ...points.map(({ rate }) => rate));
  const top = Math.ceil(highest * 10 - 1e-9) / 10;
  const cells = Array.from({ length: height }, () => Array<string>(columns).fill(" "));
  const columnOf = (step: number): number => Math.min(columns - 1, Math.floor((step / last) * (columns - 1)));
  const rowOf = (rate: number): number =>
    Math.min(height - 1, Math.max(0, Math.round((1 - rate / top) * (height - 1))));
  drawLine(cells, { rows: lineRows(training, { columns, last, rowOf }), paint: colours.green });
  for (const { step, rate } of greedy) cells[rowOf(rate)]![columnOf(step)] = colours.cyan("◇");
  for (const { step, rate } of evaluations) cells[rowOf(rate)]![columnOf(step)] = colours.cyan("◆");
  const lines = cells.map((row, index) => {
    const shown = 100 * top * (1 - index / (height - 1));
    const isLabelled = index % 2 === 0 && Math.abs(shown - Math.round(shown)) < 1e-9;
    const label = isLabelled ? `${shown.toFixed(0)} %` : "";
    return `${colours.dim(`${label.padStart(axisWidth - 2)} ${isLabelled ? "┤" : "│"}`)}${row.join("")}`.trimEnd();
  });
  const end = `step ${last}`;
  const axis = `${" ".repeat(axisWidth - 1)}└${"─".repeat(Math.max(0, columns - end.length - 1))} ${end}`;
  return [...lines, colours.dim(axis)];
}

/** The row of the smoothed line in each column from its first step to its last; `null` outside. */
function lineRows(
  training: PassRateCurve["training"],
  {
    columns,
    last,
    rowOf,
  }: { readonly columns: number; readonly last: number; readonly rowOf: (rate: number) => number },
): (number | null)[] {
  const reach = Math.max(0, Math.round((training.length * smoothedShare) / 2));
  const sums = [0];
  for (const { rate } of training) sums.push(sums.at(-1)! + rate);
  const smoothed = training.map(({ step }, at) => {
    const [from, to] = [Math.max(0, at - reach), Math.min(training.length, at + reach + 1)];
    return { step, rate: (sums[to]! - sums[from]!) / (to - from) };
  });
  let next = 0;
  return Array.from({ length: columns }, (_, column) => {
    const step = (column / (columns - 1)) * last;
    while (next < smoothed.length && smoothed[next]!.step < step) next++;
    const [before, after] = [smoothed[next - 1], smoothed[next]];
    if (after === undefined || (before === undefined && after.step - step > last / columns)) return null;
    const share = before === undefined ? 1 : (step - before.step) / (after.step - before.step);
    return rowOf((before?.rate ?? after.rate) * (1 - share) + after.rate * share);
  });
}

function drawLine(
  cells: string[][],
  { rows, paint }: { readonly rows: readonly (number | null)[]; readonly paint: (text: string) => string },
): void {
  for (const [column, row] of rows.entries()) {
    const before = rows[column - 1] ?? row;
    if (row === null || before === null) continue;
    const put = (at: number, sign: string): void => void (cells[at]![column] = paint(sign));
    if (before === row) put(row, "─");
    else {
      const isRising = row < before;
      put(before, isRising ? "╯" : "╮");
      put(row, isRising ? "╭" : "╰");
      for (let at = Math.min(row, before) + 1; at < Math.max(row, before); at++) put(at, "│");
    }
  }
}

/**
 * One line for all tasks and one for each kind, below two lines of titles, and a line about rules
 * if the environment counts them; 80 columns at most for names of up to 14 characters. Intervals
 * are those of the gain, at 95 %. `greedy`: the same tasks at temperature 0; `null` if they were
 * not run that way.
 */
export function comparisonTable(sampled: readonly ComparedKind[], greedy: readonly ComparedKind[] | null): string[] {
  const rows = sampled.filter(({ scope }) => scope !== "case");
  const twin = (row: ComparedKind): ComparedKind | undefined =>
    greedy?.find(({ scope, kind }) => scope === row.scope && kind === row.kind);
  const change = (row: ComparedKind | undefined): readonly string[] =>
    row === undefined ? ["–", "–"] : [`${percent(row.before)} -> ${percent(row.after)}`, interval(row.gainInterval)];
  const [head = "", ...lines] = textTable(
    `tasks | >n | >before -> after | >95 % of gain${greedy === null ? "" : " | >before -> after | >95 % of gain"}`,
    rows.map((row) => [row.kind, String(row.tasks), ...change(row), ...(greedy === null ? [] : change(twin(row)))]),
    Infinity,
  );
  // The titles of the two halves end at the ends of their columns.
  const end = head.indexOf("95 % of gain") + "95 % of gain".length;
  const title = "pass rate in %, temperature 1".padStart(end);
  const [all] = rows;
  const violations =
    all === undefined || all.violationsBefore === null || all.violationsAfter === null
      ? []
      : [`rules broken in an episode: ${all.violationsBefore.toFixed(2)} -> ${all.violationsAfter.toFixed(2)}`];
  return [greedy === null ? title : `${title}${"greedily".padStart(head.length - end)}`, head, ...lines, ...violations];
}

function percent(share: number): string {
  return (share * 100).toFixed(1);
}

function signed(share: number): string {
  return `${share < 0 ? "" : "+"}${percent(share)}`;
}

function interval(bounds: Interval | null): string {
  return bounds === null ? "" : `${signed(bounds.low)} to ${signed(bounds.high)}`;
}
