// A small chart: lines over steps or episodes, drawn by uPlot, with a description for people who do
// not see it.

import { useEffect, useRef } from "preact/hooks";
import UPlot from "uplot";
import { signal } from "@preact/signals";

export type Line = {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** A colour variable of the style. */
  readonly colour: string;
  /** Draws only points, with bars from low to high. */
  readonly points?: Bounds;
  readonly isFaint?: boolean;
  /** Lengths of dashes and gaps, so that lines differ by more than their colour. @default a solid line */
  readonly dash?: readonly number[];
  /** Bounds of an area that is drawn below the line. */
  readonly band?: Bounds;
};

type Bounds = { readonly low: readonly (number | null)[]; readonly high: readonly (number | null)[] };

/** Changes whenever the colours change. */
export const theme = signal(0);

type ChartProps = {
  readonly title: string;
  readonly x: readonly number[];
  readonly xLabel: string;
  readonly lines: readonly Line[];
  readonly height?: number;
  readonly format: (value: number) => string;
  /** Range of the axis; default: that of the values. */
  readonly range?: readonly [number, number];
  /** Receives the x of a place that is clicked. */
  readonly onPick?: (x: number) => void;
};

export function Chart({ title, x, xLabel, lines, height = 130, format, range, onPick }: ChartProps) {
  const pick = useRef(onPick);
  pick.current = onPick;
  const holder = useRef<HTMLDivElement>(null);
  const last = (line: Line): string => {
    const value = line.values.findLast((one) => one !== null) ?? null;
    return value === null ? "no value" : format(value);
  };
  useEffect(() => {
    const element = holder.current!;
    const style = getComputedStyle(element);
    // A canvas cannot read CSS variables, so an element resolves them.
    const colour = (name: string): string => {
      element.style.color = `var(${name})`;
      const { color } = style;
      element.style.color = "";
      return color;
    };
    const axis = {
      stroke: colour("--quiet"),
      font: `11px ${style.fontFamily}`,
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { show: false },
    };
    const chart = new UPlot(
      {
        width: Math.max(120, element.clientWidth),
        height,
        padding: [6, 8, 0, 0],
        legend: { show: false },
        cursor: { points: { size: 5 }, drag: { x: false, y: false } },
        scales: { x: { time: false }, y: range === undefined ? {} : { range: [...range] } },
        axes: [
          {
            ...axis,
            size: 22,
            space: 60,
            values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : "")),
          },
          { ...axis, size: 44, space: 26, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...lines.map((line) => ({
            label: line.label,
            stroke: colour(line.isFaint === true ? "--faint" : line.colour),
            width: line.points === undefined ? 1.5 : 1,
            dash: [...(line.dash ?? [])],
            spanGaps: true,
            points: { show: line.points !== undefined, size: 6, fill: colour(line.colour) },
          })),
        ],
        hooks: {
          drawAxes: [(plot: UPlot) => drawBands(plot, lines, colour)],
          draw: [(plot: UPlot) => drawBars(plot, lines, colour)],
          setCursor: [(plot: UPlot) => say(plot, element, { lines, format, xLabel })],
        },
      },
      [[...x], ...lines.map(({ values }) => [...values])] as UPlot.AlignedData,
      element.querySelector<HTMLElement>(".canvas")!,
    );
    const watch = new ResizeObserver(() => {
      const width = Math.max(120, element.clientWidth);
      if (width !== chart.width) chart.setSize({ width, height });
    });
    watch.observe(element);
    const onClick = (): void => {
      const x0 = chart.data[0][chart.cursor.idx ?? -1];
      if (x0 !== undefined) pick.current?.(x0);
    };
    chart.over.addEventListener("click", onClick);
    return () => {
      watch.disconnect();
      chart.destroy();
    };
  }, [x, lines, theme.value]);
  const summary = lines.map((line) => `${line.label} ${last(line)}`).join(", ");
  return (
    <figure class="chart" ref={holder}>
      <figcaption>
        <span>{title}</span> <span class="said">{summary}</span>
      </figcaption>
      <div class="canvas" role="img" aria-label={`${title}, by ${xLabel}: ${summary} at the end`} />
    </figure>
  );
}

/** Areas between the bounds of a line, interrupted where they are not known. */
function drawBands(plot: UPlot, lines: readonly Line[], colour: (name: string) => string): void {
  for (const { band, colour: name } of lines) {
    if (band === undefined) continue;
    const { ctx } = plot;
    const xs = plot.data[0];
    const isKnown = (at: number): boolean => (band.low[at] ?? null) !== null && (band.high[at] ?? null) !== null;
    ctx.save();
    ctx.globalAlpha = 0.15;
    ctx.fillStyle = colour(name);
    for (let from = 0; from < xs.length; from++) {
      if (!isKnown(from)) continue;
      let to = from;
      while (to + 1 < xs.length && isKnown(to + 1)) to++;
      ctx.beginPath();
      const place = (at: number, value: number): void =>
        ctx.lineTo(plot.valToPos(xs[at]!, "x", true), plot.valToPos(value, "y", true));
      for (let at = from; at <= to; at++) place(at, band.low[at]!);
      for (let at = to; at >= from; at--) place(at, band.high[at]!);
      ctx.fill();
      from = to;
    }
    ctx.restore();
  }
}

function drawBars(plot: UPlot, lines: readonly Line[], colour: (name: string) => string): void {
  for (const { points, colour: name } of lines) {
    if (points === undefined) continue;
    const { ctx } = plot;
    ctx.save();
    ctx.strokeStyle = colour(name);
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    for (const [at, x] of plot.data[0].entries()) {
      const [low, high] = [points.low[at] ?? null, points.high[at] ?? null];
      if (low === null || high === null) continue;
      const place = plot.valToPos(x, "x", true);
      ctx.moveTo(place, plot.valToPos(low, "y", true));
      ctx.lineTo(place, plot.valToPos(high, "y", true));
    }
    ctx.stroke();
    ctx.restore();
  }
}

function say(
  plot: UPlot,
  element: HTMLElement,
  {
    lines,
    format,
    xLabel,
  }: { readonly lines: readonly Line[]; readonly format: (value: number) => string; readonly xLabel: string },
): void {
  const at = plot.cursor.idx ?? null;
  const shown = element.querySelector(".said")!;
  const texts = lines.map(({ label, values }) => {
    const value = at === null ? values.findLast((one) => one !== null) : values[at];
    return `${label} ${value === null || value === undefined ? "–" : format(value)}`;
  });
  shown.textContent = `${at === null ? "" : `${xLabel} ${plot.data[0][at]}: `}${texts.join(", ")}`;
}
