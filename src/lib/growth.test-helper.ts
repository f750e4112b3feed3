// Whether work grows with its input and not with its square, on machines that are busy with other things: both sizes are measured
// again and again, the shortest times are compared, and the first ratio that fits settles it. What is quadratic never fits.

import { expect } from "vitest";

/** Times as long for an input so many times as large: linear work takes 8, with `n log n` 9, quadratic work 64. */
const factor = 8;
const mostRatio = 20;
const mostRounds = 60;
/** A shorter time is measured with an error as large as itself. */
const leastMs = 0.5;

/** Expects that `work` on an input 8 times as large takes less than 20 times as long. `size`: of the smaller one. */
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
