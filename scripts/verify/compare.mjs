// Compares another program's results for a model with those of our own kernels.

/**
 * @typedef {object} Answers
 * @property {string} peer Name and version.
 * @property {readonly { readonly logprobs: readonly number[], readonly greedy: readonly number[], readonly encodesEqually: boolean | null }[]} answers
 */

/**
 * @param {import("./reference.mjs").Reference} reference
 * @param {Answers} answers
 * @param {number} tolerance Largest difference of a logprob.
 */
export function compare(reference, { peer, answers }, tolerance) {
  let largest = 0;
  let sum = 0;
  let count = 0;
  let sameGreedy = 0;
  let sameIds = 0;
  let asked = 0;
  for (const [index, { logprobs, greedy }] of reference.cases.entries()) {
    const answer = answers[index];
    if (answer === undefined || answer.logprobs.length !== logprobs.length) {
      throw new Error(
        `Cannot compare case ${index}: ${peer} answered ${answer?.logprobs.length ?? "no"} logprobs, ${logprobs.length} wanted.`,
      );
    }
    for (const [place, logprob] of logprobs.entries()) {
      // NaN if the peer found probability zero: never within a tolerance.
      const difference = Math.abs(logprob - /** @type {number} */ (answer.logprobs[place]));
      largest = Number.isFinite(difference) ? Math.max(largest, difference) : Infinity;
      sum += difference;
      count += 1;
    }
    if (answer.greedy.join() === greedy.join()) sameGreedy += 1;
    if (answer.encodesEqually !== null) asked += 1;
    if (answer.encodesEqually === true) sameIds += 1;
  }
  const cases = reference.cases.length;
  const isEqual = largest <= tolerance && sameGreedy === cases && sameIds === asked;
  return {
    peer,
    prompts: cases,
    logprobs: count,
    largestDifference: Number(largest.toPrecision(3)),
    meanDifference: Number((sum / count).toPrecision(3)),
    tolerance,
    equalGreedyContinuations: sameGreedy,
    equalEncodings: asked === 0 ? null : sameIds,
    passed: isEqual,
  };
}
