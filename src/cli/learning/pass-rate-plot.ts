// The same curve as a picture: one SVG without scripts, fonts or colours of its own theme, that a README or a paper can show.

import type { ChartData, ChartPoint } from "./terminal-chart.ts";

const size = { width: 720, height: 400, left: 56, right: 16, top: 40, bottom: 44 } as const;
const innerWidth = size.width - size.left - size.right;
const innerHeight = size.height - size.top - size.bottom;

/** Steps that a point of the smoothed line looks back over. */
const smoothing = 5;

export function passRatePlot({ training, evaluations }: ChartData, title: string): string {
  const last = Math.max(1, ...[...training, ...evaluations].map(({ step }) => step));
  const x = (step: number): string => (size.left + (step / last) * innerWidth).toFixed(1);
  const y = (rate: number): string => (size.top + (1 - rate) * innerHeight).toFixed(1);
  const place = ({ step, rate }: ChartPoint): string => `${x(step)},${y(rate)}`;
  const smooth = training.map(({ step }, index) => {
    const window = training.slice(Math.max(0, index - smoothing + 1), index + 1);
    return { step, rate: window.reduce((sum, { rate }) => sum + rate, 0) / window.length };
  });
  const grid = [0, 0.2, 0.4, 0.6, 0.8, 1].map(
    (rate) =>
      `<line x1="${size.left}" x2="${size.width - size.right}" y1="${y(rate)}" y2="${y(rate)}" stroke="#ddd"/>` +
      `<text x="${size.left - 8}" y="${y(rate)}" text-anchor="end" dominant-baseline="middle">${rate * 100} %</text>`,
  );
  const steps = ticks(last).map(
    (step) => `<text x="${x(step)}" y="${size.height - size.bottom + 18}" text-anchor="middle">${step}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" font-family="sans-serif" font-size="12" fill="#333">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    `<text x="${size.left}" y="22" font-size="14">${escaped(title)}</text>`,
    ...grid,
    ...steps,
    `<text x="${size.left + innerWidth / 2}" y="${size.height - 8}" text-anchor="middle">step</text>`,
    ...training.map((point) => `<circle cx="${x(point.step)}" cy="${y(point.rate)}" r="2" fill="#9bb8d3"/>`),
    `<polyline fill="none" stroke="#2b6ca3" stroke-width="2" points="${smooth.map(place).join(" ")}"/>`,
    `<polyline fill="none" stroke="#b5532a" stroke-dasharray="4 3" points="${evaluations.map(place).join(" ")}"/>`,
    ...evaluations.map((point) => `<circle cx="${x(point.step)}" cy="${y(point.rate)}" r="4" fill="#b5532a"/>`),
    `<text x="${size.width - size.right}" y="22" text-anchor="end"><tspan fill="#2b6ca3">training, mean of ${smoothing} steps</tspan>  <tspan fill="#b5532a">held-out tasks</tspan></text>`,
    "</svg>",
    "",
  ].join("\n");
}

/** At most six whole numbers from 0 to the last step. */
function ticks(last: number): number[] {
  const rough = last / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? last;
  const whole = Math.max(1, Math.round(step));
  return Array.from({ length: Math.floor(last / whole) + 1 }, (_, index) => index * whole);
}

function escaped(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
