// Scores of given tokens over either endpoint: they are the prompt, and one token is sampled and
// ignored, because the server refuses to sample none. It lists logprobs for the whole prompt, the
// first of which is null.

import type { ScoreRequest, ScoreResult } from "../../core/scoring.ts";
import {
  asFields,
  badReply,
  errorInside,
  type FailureContext,
  type Fields,
  parseJson,
  readScore,
  readWeightVersion,
  refuseScore,
  type ScoredPosition,
} from "../../http/index.ts";
import type { Endpoint } from "./endpoints.ts";

/** Throws an `AttributedError` with code "bad-request" for tokens and numbers out of range. */
export function scoreBody(
  request: ScoreRequest,
  server: { readonly endpoint: Endpoint; readonly model: string | null; readonly vocabularySize: number | null },
  context: FailureContext,
): Buffer {
  const { endpoint, model, vocabularySize } = server;
  refuseScore(request, vocabularySize, context);
  const params = { max_tokens: 1, temperature: 1, prompt_logprobs: request.topTokens };
  const isGenerate = endpoint.name === "generate";
  const fields = {
    request_id: request.requestId,
    ...(model === null ? {} : { model }),
    stream: false,
    ...(isGenerate ? { sampling_params: params } : params),
  };
  const ids = `"${isGenerate ? "token_ids" : "prompt"}":[${request.tokens.join(",")}]`;
  return Buffer.from(`{${ids},${JSON.stringify(fields).slice(1)}`);
}

/**
 * `version` is the last known weight version; a version in the reply overrides it. Throws an
 * `AttributedError` for a reply that does not score exactly the requested tokens.
 */
export function readScoreReply(
  bytes: Buffer,
  request: ScoreRequest,
  { version, context }: { readonly version: string | null; readonly context: FailureContext },
): ScoreResult {
  const body = asFields(parseJson(bytes, context));
  const error = body?.["error"] ?? (body?.["object"] === "error" ? body : null);
  if (error !== null) throw errorInside(error, context);
  const choices = body?.["choices"];
  const choice = asFields(Array.isArray(choices) ? choices[0] : null);
  const listed = body?.["prompt_logprobs"] ?? choice?.["prompt_logprobs"];
  if (!Array.isArray(listed)) throw badReply(context, "prompt_logprobs is not a list", { retryable: false });
  const entries = listed as readonly unknown[];
  if (entries.length !== request.tokens.length) {
    throw badReply(context, `prompt_logprobs has ${entries.length} entries, expected ${request.tokens.length}`, {
      retryable: false,
    });
  }
  const named = readWeightVersion(body?.["weight_version"] ?? lastVersion(choice), context);
  const at = (index: number): ScoredPosition => {
    const place = request.from + index;
    return positionOf(asFields(entries[place]), request.tokens[place]!);
  };
  return readScore(request, { at, weightVersion: named ?? version }, context);
}

/** The requested number of most probable tokens, and the prompt's own token if it is not one of them. */
function positionOf(scores: Fields | null, own: number): ScoredPosition {
  if (scores === null) return { id: null, logprob: null, top: [] };
  const top = Object.entries(scores).map(([id, score]) => {
    const isId = /^(0|[1-9]\d{0,9})$/.test(id);
    return [isId ? Number(id) : id, asFields(score)?.["logprob"]] as const;
  });
  const found = top.find(([id]) => id === own);
  return { id: found?.[0] ?? null, logprob: found?.[1], top };
}

function lastVersion(choice: Fields | null): unknown {
  const spans = choice?.["weight_versions"];
  return Array.isArray(spans) ? asFields((spans as readonly unknown[]).at(-1))?.["version"] : null;
}
