// Log-probabilities of chosen tokens, and the backward pass. Rows of logits are a multiple of 4
// long.

import { exponential, maxLane, multiplyAdd, sumLanes } from "./vector";

/**
 * Writes for each row the natural logs of the target's probability and of the sum of exponentials
 * (for the backward pass), and the entropy of the distribution in nats.
 */
export function logProbabilities(
  logits: usize,
  rows: i32,
  size: i32,
  targets: usize,
  logprobs: usize,
  logSums: usize,
  entropies: usize,
): void {
  const bytes = usize(size) << 2;
  for (let row = 0; row < rows; row++, logits += bytes) {
    const offset = usize(row) << 2;
    const highest = largest(logits, bytes);
    const highest4 = f32x4.splat(highest);
    let sums = f32x4.splat(0);
    let weighted = f32x4.splat(0);
    for (let at: usize = 0; at < bytes; at += 16) {
      const distance = f32x4.sub(v128.load(logits + at), highest4);
      const power = exponential(distance);
      sums = f32x4.add(sums, power);
      weighted = multiplyAdd(power, distance, weighted);
    }
    const sum = sumLanes(sums);
    const logSum: f32 = highest + f32(Math.log(sum));
    const target = usize(load<u32>(targets + offset)) << 2;
    store<f32>(logSums + offset, logSum);
    store<f32>(logprobs + offset, load<f32>(logits + target) - logSum);
    store<f32>(entropies + offset, logSum - highest - sumLanes(weighted) / sum);
  }
}

/**
 * Replaces logits by the gradient of a loss whose derivatives are `coefficients` by the logprob of
 * each row's target, and `entropyCoefficients` by its entropy.
 */
export function logProbabilitiesBackward(
  logits: usize,
  rows: i32,
  size: i32,
  targets: usize,
  logSums: usize,
  entropies: usize,
  coefficients: usize,
  entropyCoefficients: usize,
): void {
  const bytes = usize(size) << 2;
  for (let row = 0; row < rows; row++, logits += bytes) {
    const offset = usize(row) << 2;
    const coefficient = load<f32>(coefficients + offset);
    const byLogprob = f32x4.splat(-coefficient);
    const byEntropy = f32x4.splat(-load<f32>(entropyCoefficients + offset));
    const logSum = v128.load_splat<f32>(logSums + offset);
    const entropy = v128.load_splat<f32>(entropies + offset);
    for (let at: usize = 0; at < bytes; at += 16) {
      const logprob = f32x4.sub(v128.load(logits + at), logSum);
      // dEntropy/dlogit = -p * (log p + entropy); dlogprob/dlogit = [is target] - p.
      const slope = multiplyAdd(byEntropy, f32x4.add(logprob, entropy), byLogprob);
      v128.store(logits + at, f32x4.mul(exponential(logprob), slope));
    }
    const target = logits + (usize(load<u32>(targets + offset)) << 2);
    store<f32>(target, load<f32>(target) + coefficient);
  }
}

/** Replaces a row of logits by e^((logit - highest) * inverseTemperature); returns their sum. */
export function temper(logits: usize, size: i32, inverseTemperature: f32): f32 {
  const bytes = usize(size) << 2;
  const highest = f32x4.splat(largest(logits, bytes));
  const factor = f32x4.splat(inverseTemperature);
  let sums = f32x4.splat(0);
  for (let at: usize = 0; at < bytes; at += 16) {
    const power = exponential(f32x4.mul(f32x4.sub(v128.load(logits + at), highest), factor));
    v128.store(logits + at, power);
    sums = f32x4.add(sums, power);
  }
  return sumLanes(sums);
}

function largest(row: usize, bytes: usize): f32 {
  let highest = v128.load(row);
  for (let at: usize = 16; at < bytes; at += 16) highest = f32x4.pmax(highest, v128.load(row + at));
  return maxLane(highest);
}
