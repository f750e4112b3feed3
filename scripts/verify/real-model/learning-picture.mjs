// Picture of the trainings of `verify -- real-model -- learning`: pass rates of their sampled
// episodes over the minutes of training, and of the held-out tasks, played greedily, before and
// after. docs/real-models.md shows it.

import { writeFile } from "node:fs/promises";

/**
 * @typedef {{ readonly minutes: number, readonly rate: number }} Point The pass rate of a step, at
 *   the minute in which its episodes had been sampled.
 * @typedef {{
 *   readonly name: string,
 *   readonly curve: readonly Point[],
 *   readonly before: number,
 *   readonly after: number,
 * }} Shown A training; its greedy pass rates are shares.
 */

const size = { width: 760, height: 300, left: 52, right: 300, top: 34, bottom: 40 };
const colours = { seed: ["#2b6ca3", "#3a7d44", "#7a4fa3"], control: "#b5532a" };

/**
 * Writes the picture.
 *
 * @param {string} file
 * @param {readonly Shown[]} trainings
 */
export async function drawLearning(file, trainings) {
  const last = Math.max(1, ...trainings.flatMap(({ curve }) => curve.map(({ minutes }) => minutes)));
  const inner = { width: size.width - size.left - size.right, height: size.height - size.top - size.bottom };
  const x = (/** @type {number} */ minutes) => (size.left + (minutes / last) * inner.width).toFixed(1);
  const y = (/** @type {number} */ rate) => (size.top + (1 - rate) * inner.height).toFixed(1);
  const colourOf = (/** @type {Shown} */ { name }, /** @type {number} */ index) =>
    name === "control" ? colours.control : (colours.seed[index % 3] ?? "#333");
  const barWidth = 22;
  const barX = (/** @type {number} */ index) => size.width - size.right + 56 + index * (2 * barWidth + 14);
  /** @param {number} left @param {number} rate @param {string} fill */
  const bar = (left, rate, fill) => {
    const height = (rate * inner.height).toFixed(1);
    return `<rect x="${left}" y="${y(rate)}" width="${barWidth}" height="${height}" fill="${fill}"/>`;
  };
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${size.height}" font-family="sans-serif" font-size="11" fill="#333">`,
    `<rect width="100%" height="100%" fill="#fff"/>`,
    `<text x="${size.left}" y="20" font-size="13">sampled on training tasks, by minute</text>`,
    `<text x="${barX(0) - 6}" y="20" font-size="13">greedily on held-out tasks</text>`,
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((rate) => [
      `<line x1="${size.left}" x2="${size.width - 10}" y1="${y(rate)}" y2="${y(rate)}" stroke="#ddd"/>`,
      `<text x="${size.left - 6}" y="${y(rate)}" text-anchor="end" dominant-baseline="middle">${rate * 100} %</text>`,
    ]),
    ...[0, 10, 20, 30, 40]
      .filter((minutes) => minutes <= last + 1)
      .map((at) => `<text x="${x(at)}" y="${size.height - size.bottom + 16}" text-anchor="middle">${at}</text>`),
    ...trainings.flatMap((training, index) => {
      const colour = colourOf(training, index);
      const points = training.curve.map(({ minutes, rate }) => ({ x: x(minutes), y: y(rate) }));
      const line = points.map((point) => `${point.x},${point.y}`).join(" ");
      const dash = training.name === "control" ? ' stroke-dasharray="5 3"' : "";
      const left = barX(index);
      return [
        `<polyline fill="none" stroke="${colour}" stroke-width="2"${dash} points="${line}"/>`,
        ...points.map((point) => `<circle cx="${point.x}" cy="${point.y}" r="3" fill="${colour}"/>`),
        bar(left, training.before, "#c9c9c9"),
        bar(left + barWidth, training.after, colour),
        `<text x="${left + barWidth}" y="${size.height - size.bottom + 16}" text-anchor="middle" fill="${colour}">${training.name}</text>`,
      ];
    }),
    `<text x="${barX(0) - 6}" y="${size.height - 6}">grey: before</text>`,
    "</svg>",
    "",
  ];
  await writeFile(file, parts.join("\n"));
}
