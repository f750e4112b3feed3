// Scoring as an optional capability of engines: logprobs of given tokens, such as those that a
// student sampled, under the engine's own weights.

/** Maximum number of most probable tokens that a score may list for each position. */
export const mostTopTokens = 256;

/** A request for the logprobs of `tokens[from]` and all tokens after it. */
export type ScoreRequest = {
  /** Must not change until the call settles. */
  readonly tokens: Uint32Array;
  /** Position of the first scored token, 1 to `tokens.length - 1`: nothing precedes the token at 0. */
  readonly from: number;
  /** Number of most probable tokens that are listed for each position, 0 to 256. */
  readonly topTokens: number;
  /** Unique per attempt; engines abort a request by this id. */
  readonly requestId: string;
  /** The same for all calls with a common beginning, so that a router can use one prefix cache; `null`: no preference. */
  readonly routingKey: string | null;
};

/** The most probable tokens at each scored position, `width` for each, the most probable first. */
export type TopTokens = {
  readonly width: number;
  /** `width` for each scored position, one position after the other. */
  readonly ids: Uint32Array;
  /** Aligned with `ids`. */
  readonly logprobs: Float32Array;
};

export type ScoreResult = {
  /** One for each token from `from` on, natural log, at temperature 1 and without truncation. */
  readonly logprobs: Float32Array;
  /** `null` if no most probable tokens were requested. */
  readonly top: TopTokens | null;
  /** The version of the weights that scored; `null` if the engine names none. */
  readonly weightVersion: string | null;
};

export type ScoreOptions = { readonly signal?: AbortSignal };

/**
 * The part of an engine that scores tokens.
 *
 * Guarantees: every result has one logprob for each requested token, under one version of the
 * weights; a rejection is an `AttributedError` at boundary "engine" with an `EngineFailureCode`,
 * "bad-request" for tokens and numbers out of range. Safe to call concurrently, and together with
 * `sample`; servers batch the calls that arrive together. Not promised: order between calls.
 * Retries belong to the caller.
 */
export interface Scorer {
  score(request: ScoreRequest, options?: ScoreOptions): Promise<ScoreResult>;
}

/** The reason against a request, as a clause; `null` if it can be scored. */
export function scoreProblem({ tokens, from, topTokens }: ScoreRequest, vocabularySize: number | null): string | null {
  if (!Number.isInteger(from) || from < 1 || from >= tokens.length) {
    return `the first scored token is ${from}, expected 1 to ${tokens.length - 1}`;
  }
  if (!Number.isInteger(topTokens) || topTokens < 0 || topTokens > mostTopTokens) {
    return `topTokens is ${topTokens}, expected 0 to ${mostTopTokens}`;
  }
  if (vocabularySize === null) return null;
  if (topTokens > vocabularySize) return `topTokens is ${topTokens}, but the vocabulary has ${vocabularySize} tokens`;
  const unknown = tokens.findIndex((id) => id >= vocabularySize);
  if (unknown < 0) return null;
  return `token ${unknown} is ${tokens[unknown]}, but the vocabulary has ${vocabularySize} tokens; score with a model that has the tokenizer of these tokens`;
}

/**
 * The `width` highest of these logits or logprobs, the highest first, equal ones by their ids;
 * `values` is indexed by token id.
 */
export function highestTokens(values: ArrayLike<number>, width: number): Uint32Array {
  // Insertion into a short sorted list: a sort of the whole vocabulary would cost ten times as much.
  const ids = new Uint32Array(width);
  let count = 0;
  for (let id = 0; id < values.length; id++) {
    const value = values[id]!;
    if (count === width && value <= values[ids[width - 1]!]!) continue;
    let at = count < width ? count++ : width - 1;
    for (; at > 0 && values[ids[at - 1]!]! < value; at--) ids[at] = ids[at - 1]!;
    ids[at] = id;
  }
  return ids;
}
