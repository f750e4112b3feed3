// Pass rates over steps as lines of text: a point for each step (or the mean of several, when there are more steps than
// columns), a diamond where held-out tasks were evaluated.

export type ChartPoint = { readonly step: number; readonly rate: number };

export type ChartData = {
  readonly training: readonly ChartPoint[];
  readonly evaluations: readonly ChartPoint[];
};

export type ChartSize = { readonly width: number; readonly height: number };

const axisWidth = 7;

/** `height` lines of curve and one of steps. The vertical axis goes from 0 to the next ten per cent above all points. */
export function terminalChart({ training, evaluations }: ChartData, { width, height }: ChartSize): string[] {
  const columns = Math.max(10, width - axisWidth);
  const last = Math.max(1, ...[...training, ...evaluations].map(({ step }) => step));
  const highest = Math.max(0.1, ...[...training, ...evaluations].map(({ rate }) => rate));
  const top = Math.ceil(highest * 10 - 1e-9) / 10;
  const cells = Array.from({ length: height }, () => Array<string>(columns).fill(" "));
  const columnOf = (step: number): number => Math.min(columns - 1, Math.floor((step / last) * (columns - 1)));
  const rowOf = (rate: number): number =>
    Math.min(height - 1, Math.max(0, Math.round((1 - rate / top) * (height - 1))));
  const byColumn = new Map<number, number[]>();
  for (const { step, rate } of training) {
    const column = columnOf(step);
    byColumn.set(column, [...(byColumn.get(column) ?? []), rate]);
  }
  for (const [column, rates] of byColumn) {
    cells[rowOf(rates.reduce((sum, rate) => sum + rate, 0) / rates.length)]![column] = "•";
  }
  for (const { step, rate } of evaluations) cells[rowOf(rate)]![columnOf(step)] = "◆";
  const lines = cells.map((row, index) => {
    const isLabelled = index === 0 || index === height - 1 || index === Math.floor((height - 1) / 2);
    const rate = top * (1 - index / (height - 1));
    const label = isLabelled ? `${(rate * 100).toFixed(0)} %` : "";
    return `${label.padStart(axisWidth - 2)} ${isLabelled ? "┤" : "│"}${row.join("")}`.trimEnd();
  });
  const end = `step ${last}`;
  return [...lines, `${" ".repeat(axisWidth - 1)}└${"─".repeat(Math.max(0, columns - end.length - 1))} ${end}`];
}
