// Common parts of all benchmarks: the machine in one line, CPU time, medians and spread, and rows
// for the table of `loop`.

import { cpus, totalmem } from "node:os";

export function machine() {
  const { model } = cpus()[0] ?? { model: "unknown processor" };
  return `${cpus().length} x ${model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.version}`;
}

/**
 * Sends rows of the loop's table to the process that collects them (`bench/loop.mjs`); if a
 * benchmark runs on its own, its printed output is all.
 */
export function reportRows(...rows) {
  process.send?.({ type: "rows", rows });
}

/**
 * Warm-up rounds, which are not counted. Each has about 800 turns; after some 6,000 V8 has compiled
 * all code that a run of thousands of episodes executes, and the cost of a turn falls no further.
 * Python compiles nothing and does not become faster.
 */
export const warmUpRounds = 8;

/** CPU microseconds of this process, all threads, while `action` runs. */
export async function cpuOf(action) {
  const before = process.cpuUsage();
  const result = await action();
  const { user, system } = process.cpuUsage(before);
  return { result, cpuUs: user + system };
}

export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** "median (min to max)" with `digits` decimals. */
export function spread(values, digits = 1) {
  const show = (value) => value.toFixed(digits);
  return `${show(median(values))} (${show(Math.min(...values))} to ${show(Math.max(...values))})`;
}
