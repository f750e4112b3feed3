// Checks that every server's scores must pass, in any format: they belong to the requested tokens,
// logprobs are log probabilities, and the most probable tokens are as many as requested.

import { scoreProblem, type ScoreRequest, type ScoreResult } from "../core/scoring.ts";
import { badReply, engineFailure, type FailureContext } from "./engine-failure.ts";
import { isTokenId, mostLogprob, readLogprob } from "./reply.ts";

/** Throws an `AttributedError` with code "bad-request" for tokens and numbers out of range. */
export function refuseScore(request: ScoreRequest, vocabularySize: number | null, context: FailureContext): void {
  const state = scoreProblem(request, vocabularySize);
  if (state !== null) throw engineFailure(context, { code: "bad-request", retryable: false, state });
}

/** The scores of one position, unchanged from the server. */
export type ScoredPosition = {
  readonly id: unknown;
  readonly logprob: unknown;
  /** Listed tokens, in any order. */
  readonly top: readonly (readonly [id: unknown, logprob: unknown])[];
};

/**
 * Reads the scores; `at` returns the position of the `index`-th scored token. Throws an
 * `AttributedError` with code "bad-reply" if they are not those of the request.
 */
export function readScore(
  { tokens, from, topTokens: width }: ScoreRequest,
  reply: { readonly at: (index: number) => ScoredPosition; readonly weightVersion: string | null },
  context: FailureContext,
): ScoreResult {
  const count = tokens.length - from;
  const logprobs = new Float32Array(count);
  const top =
    width === 0 ? null : { width, ids: new Uint32Array(count * width), logprobs: new Float32Array(count * width) };
  const checked = (value: unknown, index: number): number => {
    const logprob = readLogprob(value, from + index, context);
    if (logprob <= mostLogprob) return logprob;
    throw badReply(context, `the logprob of token ${from + index} is ${logprob}`);
  };
  for (let index = 0; index < count; index++) {
    const position = reply.at(index);
    const expected = tokens[from + index];
    if (position.id !== expected) {
      throw badReply(
        context,
        `the score of token ${from + index} is of ${String(position.id)}, but ${expected} was sent`,
        {
          retryable: false,
        },
      );
    }
    logprobs[index] = checked(position.logprob, index);
    if (top === null) continue;
    const listed = position.top.map(([id, value]) => {
      if (!isTokenId(id)) throw badReply(context, `a most probable token at ${from + index} has no id`);
      return { id, logprob: checked(value, index) };
    });
    listed.sort((one, other) => other.logprob - one.logprob || one.id - other.id);
    if (listed.length < width) {
      throw badReply(context, `it lists ${listed.length} tokens at ${from + index}, expected ${width}`, {
        retryable: false,
        remedy: "request fewer most probable tokens",
      });
    }
    for (const [place, { id, logprob }] of listed.slice(0, width).entries()) {
      top.ids[index * width + place] = id;
      top.logprobs[index * width + place] = logprob;
    }
  }
  return { logprobs, top, weightVersion: reply.weightVersion };
}
