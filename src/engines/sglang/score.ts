// Scores of given tokens over /generate: the prompt is all of them, and nothing is sampled. The
// server lists logprobs from `logprob_start_len` on, and has none for the first that it lists; so
// the list begins one token early.

import { mostTopTokens, type ScoreRequest, type ScoreResult } from "../../core/scoring.ts";
import {
  asFields,
  badReply,
  errorInside,
  type FailureContext,
  parseJson,
  readScore,
  readWeightVersion,
  refuseScore,
  type ScoredPosition,
} from "../../http/index.ts";

/** Throws an `AttributedError` with code "bad-request" for tokens and numbers out of range. */
export function scoreBody(
  request: ScoreRequest,
  { vocabularySize, adapter }: { readonly vocabularySize: number | null; readonly adapter: string | null },
  context: FailureContext,
): Buffer {
  refuseScore(request, vocabularySize, context);
  const { tokens, from, topTokens, requestId } = request;
  const fields = {
    rid: requestId,
    sampling_params: { max_new_tokens: 0 },
    return_logprob: true,
    logprob_start_len: from - 1,
    ...(topTokens === 0 ? {} : { top_logprobs_num: topTokens }),
    stream: false,
    ...(adapter === null ? {} : { lora_path: adapter }),
  };
  return Buffer.from(`{"input_ids":[${tokens.join(",")}],${JSON.stringify(fields).slice(1)}`);
}

/** Throws an `AttributedError` for a reply that does not score exactly the requested tokens. */
export function readScoreReply(body: Buffer, request: ScoreRequest, context: FailureContext): ScoreResult {
  const item = asFields(parseJson(body, context));
  const error = item?.["error"] ?? null;
  if (error !== null) throw errorInside(error, context);
  const meta = asFields(item?.["meta_info"]);
  if (meta === null) throw badReply(context, "meta_info is missing");
  const { input_token_logprobs: own, input_top_logprobs: top = null, prompt_tokens: promptTokens } = meta;
  const count = request.tokens.length;
  if (typeof promptTokens === "number" && promptTokens !== count) {
    throw badReply(context, `the server read ${promptTokens} tokens, but was sent ${count}`, { retryable: false });
  }
  const listed = count - request.from + 1;
  for (const [name, list] of Object.entries({ own, ...(request.topTokens === 0 ? {} : { top }) })) {
    const field = name === "own" ? "input_token_logprobs" : "input_top_logprobs";
    if (Array.isArray(list) && list.length === listed) continue;
    throw badReply(context, `${field} has ${Array.isArray(list) ? list.length : "no"} entries, expected ${listed}`);
  }
  return readScore(
    request,
    {
      at: (index) => positionOf(own, top, index + 1),
      weightVersion: readWeightVersion(meta["weight_version"], context),
    },
    context,
  );
}

function positionOf(own: unknown, top: unknown, place: number): ScoredPosition {
  const [logprob, id] = pairOf((own as readonly unknown[])[place]);
  const list = Array.isArray(top) ? (top as readonly unknown[])[place] : [];
  const entries = Array.isArray(list) ? (list as readonly unknown[]) : [];
  return {
    id,
    logprob,
    top: entries.slice(0, mostTopTokens + 1).map((entry) => [...pairOf(entry)].reverse() as [unknown, unknown]),
  };
}

function pairOf(entry: unknown): readonly [logprob: unknown, id: unknown] {
  const [logprob, id] = Array.isArray(entry) ? (entry as readonly unknown[]) : [];
  return [logprob, id];
}
