// One score on one sequence: the tokens go into the cache, and the rows of logits after them yield
// the logprobs of those that follow. Whole rows are read, because a scored token may be improbable.

import type { ScoreRequest, ScoreResult } from "../../core/scoring.ts";
import { RowScores } from "../row-scores.ts";
import type { Rows } from "./rows.ts";
import type { SequenceLease } from "./sequence-pool.ts";

/** Number of tokens that are computed between two checks for an abort. */
const chunk = 512;
/** The same where whole rows are read: each has a number for every token of the vocabulary. */
const readChunk = 64;

/** Resolves with `null` soon after the signal aborts. */
export async function score(
  { sequence, share }: Pick<SequenceLease, "sequence" | "share">,
  {
    request,
    rows,
    weightVersion,
    signal,
  }: {
    readonly request: ScoreRequest;
    readonly rows: Rows;
    readonly weightVersion: string | null;
    readonly signal: AbortSignal;
  },
): Promise<ScoreResult | null> {
  const tokens = [...request.tokens.subarray(0, -1)];
  // The first token whose row is needed.
  const first = request.from - 1;
  await sequence.adaptStateToTokens(tokens.slice(0, first), false);
  const scores = new RowScores(request);
  for (let at = sequence.nextTokenIndex; at < tokens.length;) {
    await share();
    if (signal.aborted) return null;
    const end = Math.min(tokens.length, at < first ? Math.min(first, at + chunk) : at + readChunk);
    const start = at;
    const take = (index: number, logits: Float32Array): void =>
      scores.take(start + index, logits, () => sumOfPowers(logits));
    await rows.whole(sequence, tokens.slice(at, end), { from: Math.max(0, first - at), take });
    at = end;
  }
  return scores.result(weightVersion);
}

/** Sum of e^(logit - highest logit). */
function sumOfPowers(logits: Float32Array): number {
  let highest = -Infinity;
  for (const logit of logits) highest = Math.max(highest, logit);
  let sum = 0;
  for (const logit of logits) sum += Math.exp(logit - highest);
  return sum;
}
