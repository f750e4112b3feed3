// The contract of scoring, as checks of an engine that has a model: `engineConformance` adds them to
// its own.

import assert from "node:assert/strict";
import type { Engine, SampleRequest } from "../core/engine.ts";
import { AttributedError } from "../core/failure.ts";
import type { ScoreRequest, Scorer, TopTokens } from "../core/scoring.ts";
import { TokenBuffer } from "../core/token-buffer.ts";

/** Difference of two logprobs of one token from which weights or tokens are not the same: bfloat16 explains 0.2. */
const mostDifference = 0.5;
const meanDifference = 0.1;
/** Rounding of the server's numbers. */
const epsilon = 1e-3;

export type ScoringCheck = { readonly name: string; readonly body: (engine: Engine) => Promise<void> };

/**
 * The checks. `ids` are tokens of the vocabulary that end no reply; `sampling` makes a call that
 * samples a few tokens after these.
 */
export function scoringChecks(
  ids: readonly number[],
  sampling: (prompt: TokenBuffer) => SampleRequest,
): readonly ScoringCheck[] {
  const tokens = Uint32Array.from({ length: 12 }, (_, at) => ids[at % ids.length] ?? 0);
  let count = 0;
  const request = (options: Partial<ScoreRequest> = {}): ScoreRequest => ({
    tokens,
    from: 1,
    topTokens: 0,
    requestId: `conformance-score-${Math.random().toString(36).slice(2, 10)}-${++count}`,
    routingKey: null,
    ...options,
  });
  const checks: Readonly<Record<string, (scorer: Scorer, engine: Engine) => Promise<void>>> = {
    "score() gives every token from the first one a logprob": async (scorer) => {
      const { logprobs, top } = await scorer.score(request());
      assert.equal(logprobs.length, tokens.length - 1);
      checkLogprobs(logprobs);
      assert.equal(top, null);
    },
    "a score is the same wherever it begins, and beside others": async (scorer) => {
      const [whole, ...parts] = await Promise.all([1, 4, 4, 11].map((from) => scorer.score(request({ from }))));
      for (const { logprobs } of parts) checkClose(whole!.logprobs.slice(-logprobs.length), logprobs);
    },
    "the most probable tokens of a position are in order, and agree with the score": async (scorer) => {
      const { logprobs, top } = await scorer.score(request({ topTokens: 3 }));
      assert.ok(top !== null && top.width === 3, "three most probable tokens were requested for each position");
      assert.equal(top.ids.length, 3 * logprobs.length);
      logprobs.forEach((logprob, at) => checkTop({ token: tokens[at + 1]!, logprob }, top, at));
    },
    "the score of sampled tokens is the logprob with which they were sampled": async (scorer, engine) => {
      const prompt = TokenBuffer.from(ids);
      const { sampledTokens, logprobs } = await engine.sample(sampling(prompt));
      assert.ok(logprobs !== null && sampledTokens.length > 0, "the engine sampled no tokens with logprobs");
      const scored = await scorer.score(request({ tokens: Uint32Array.from([...ids, ...sampledTokens]), from: ids.length })); // prettier-ignore
      checkClose(scored.logprobs, logprobs);
    },
    "score() refuses positions that cannot be scored": async (scorer) => {
      for (const from of [0, tokens.length, 1.5]) {
        const error: unknown = await scorer.score(request({ from })).catch((reason: unknown) => reason);
        assert.ok(error instanceof AttributedError, `a score from ${from} did not fail`);
        assert.deepEqual([error.failure.boundary, error.failure.code], ["engine", "bad-request"]);
      }
    },
    "a score that is cancelled rejects with code cancelled": async (scorer) => {
      const error: unknown = await scorer
        .score(request(), { signal: AbortSignal.abort() })
        .catch((reason: unknown) => reason);
      assert.ok(error instanceof AttributedError, "a cancelled score did not fail");
      assert.equal(error.failure.code, "cancelled");
    },
  };
  return Object.entries(checks).map(([name, run]) => ({ name, body: async (engine) => run(scorerOf(engine), engine) }));
}

function scorerOf(engine: Engine): Scorer {
  assert.ok("score" in engine && typeof engine.score === "function", "the engine has no score()");
  return engine as Engine & Scorer;
}

function checkLogprobs(logprobs: Float32Array): void {
  assert.ok(logprobs.every((logprob) => Number.isFinite(logprob) && logprob <= epsilon));
}

function checkClose(one: Float32Array, other: Float32Array): void {
  checkLogprobs(other);
  assert.equal(one.length, other.length);
  const differences = [...one].map((logprob, at) => Math.abs(logprob - (other[at] ?? NaN)));
  const mean = differences.reduce((sum, difference) => sum + difference, 0) / Math.max(1, differences.length);
  const largest = Math.max(0, ...differences);
  assert.ok(
    largest <= mostDifference && mean <= meanDifference,
    `logprobs differ by ${mean.toFixed(3)} on average and ${largest.toFixed(3)} at most`,
  );
}

function checkTop(scored: { readonly token: number; readonly logprob: number }, top: TopTokens, at: number): void {
  const [begin, end] = [at * top.width, (at + 1) * top.width];
  const [ids, logprobs] = [top.ids.slice(begin, end), top.logprobs.slice(begin, end)];
  assert.equal(new Set(ids).size, top.width, "a token is listed twice");
  logprobs.forEach((logprob, place) => assert.ok(place === 0 || logprob <= logprobs[place - 1]! + epsilon));
  const place = ids.indexOf(scored.token);
  const difference = place === -1 ? scored.logprob - logprobs.at(-1)! : Math.abs(scored.logprob - logprobs[place]!);
  assert.ok(difference <= epsilon, `token ${scored.token} has ${scored.logprob}, the list ${[...logprobs].join(", ")}`);
}
