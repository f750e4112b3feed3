// Checks that work grows linearly with its input, not quadratically, on machines with other load:
// both sizes are measured repeatedly, the shortest times are compared, and the first ratio within
// the limit passes. Quadratic work never passes.

import { expect } from "vitest";

/**
 * Size ratio of the two inputs, and the maximum ratio of their times: linear work takes 8 times as
 * long, `n log n` 9, quadratic work 64. Memory may triple the time of the larger input on a busy
 * machine.
 */
const factor = 8;
const mostRatio = 32;
const mostRounds = 60;
/** Times below this cannot be measured reliably. */
const leastMs = 0.5;

/**
 * Expects that an input 8 times as large takes `work` less than 32 times as long. `size` is that of
 * the smaller input.
 */
export async function expectLinear(size: number, work: (size: number) => unknown): Promise<void> {
  const [small, large] = [size, size * factor];
  let [shortSmall, shortLarge] = [Infinity, Infinity];
  for (let round = 0; round < mostRounds; round++) {
    shortSmall = Math.min(shortSmall, await timeOf(() => work(small)));
    shortLarge = Math.min(shortLarge, await timeOf(() => work(large)));
    if (round > 0 && shortLarge < Math.max(shortSmall, leastMs) * mostRatio) return;
  }
  expect.fail(
    `Work on ${large} took ${shortLarge.toFixed(1)} ms, on ${small} ${shortSmall.toFixed(1)} ms: ` +
      `${(shortLarge / shortSmall).toFixed(1)} times as long for ${factor} times as much.`,
  );
}

async function timeOf(work: () => unknown): Promise<number> {
  const start = performance.now();
  await work();
  return performance.now() - start;
}
