// One token out of a row of logits, as SGLang does it: penalties and biases, temperature, softmax; the logprob is that of
// this distribution; then top-k and top-p together, then min-p; then a draw among what is left.

import type { GenerationParams } from "./generation-params.ts";

/** What was sampled so far, and how often. */
export type TokenCounts = ReadonlyMap<number, number>;

/** Changes logits by what depends on the tokens sampled so far. True when it changed any. */
export function adjustLogits(logits: Float32Array, params: GenerationParams, counts: TokenCounts): void {
  const { frequencyPenalty, presencePenalty, repetitionPenalty } = params;
  if (frequencyPenalty !== 0 || presencePenalty !== 0 || repetitionPenalty !== 1) {
    for (const [token, count] of counts) {
      const logit = logits[token]! - frequencyPenalty * count - presencePenalty;
      logits[token] = logit > 0 ? logit / repetitionPenalty : logit * repetitionPenalty;
    }
  }
  for (const [token, bias] of params.logitBias) logits[token]! += bias;
  let sampled = 0;
  for (const count of counts.values()) sampled += count;
  if (sampled < params.minNewTokens) for (const token of params.stopTokenIds) logits[token] = -Infinity;
}

/** Why a generation ends with what was sampled; `null`: it goes on. The bound is looked at first, as SGLang does. */
export function endingOf(params: GenerationParams, sampled: ArrayLike<number>): "matched" | "length" | null {
  const { maxNewTokens, minNewTokens, stopTokenIds } = params;
  if (sampled.length >= maxNewTokens) return "length";
  if (sampled.length < Math.max(1, minNewTokens)) return null;
  return stopTokenIds.includes(sampled[sampled.length - 1]!) ? "matched" : null;
}

export type ChosenToken = { readonly token: number; readonly logprob: number };

/**
 * Chooses by probabilities that need not sum to 1: `powers` are e^(logit / temperature) up to a common factor, `sum` their
 * sum. `uniform` gives numbers in [0, 1) and is not asked when there is nothing to choose.
 */
export function chooseToken(
  powers: Float32Array,
  sum: number,
  params: GenerationParams,
  uniform: () => number,
): ChosenToken {
  const token = params.topK === 1 ? highest(powers) : draw(powers, sum, params, uniform);
  return { token, logprob: Math.min(0, Math.log(powers[token]!) - Math.log(sum)) };
}

function draw(powers: Float32Array, sum: number, params: GenerationParams, uniform: () => number): number {
  const isWhole = params.topK === -1 && params.topP >= 1 && params.minP <= 0;
  if (isWhole) return drawFrom(powers, null, uniform() * sum);
  const kept = truncate(powers, sum, params);
  const keptSum = kept.reduce((total, token) => total + powers[token]!, 0);
  return drawFrom(powers, kept, uniform() * keptSum);
}

/** The first token (of `tokens`, or of all) at which the running sum exceeds the threshold. */
function drawFrom(powers: Float32Array, tokens: readonly number[] | null, threshold: number): number {
  const count = tokens?.length ?? powers.length;
  let running = 0;
  let last = 0;
  for (let index = 0; index < count; index++) {
    const token = tokens === null ? index : tokens[index]!;
    const power = powers[token]!;
    running += power;
    if (running > threshold) return token;
    if (power > 0) last = token;
  }
  // The sum was rounded differently than the running one.
  return last;
}

/** The tokens that stay, most probable first; of equals the lower id first. */
function truncate(powers: Float32Array, sum: number, { topK, topP, minP }: GenerationParams): readonly number[] {
  const order = Array.from(powers.keys()).sort((a, b) => powers[b]! - powers[a]! || a - b);
  const most = topK === -1 ? order.length : topK;
  const least = powers[order[0]!]! * minP;
  const kept: number[] = [];
  let before = 0;
  for (const token of order) {
    const power = powers[token]!;
    if (kept.length >= most || before > topP * sum || power < least) break;
    kept.push(token);
    before += power;
  }
  return kept;
}

function highest(powers: Float32Array): number {
  let best = 0;
  for (let token = 1; token < powers.length; token++) if (powers[token]! > powers[best]!) best = token;
  return best;
}
