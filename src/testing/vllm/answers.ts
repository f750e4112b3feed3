// What the two endpoints answer: whole, and in chunks whose ids and logprobs are what is new since the last one.

import type { ChoiceTracker } from "./choice-tracker.ts";
import type { VllmCall } from "./read-call.ts";

export type AnswerFacts = {
  readonly call: VllmCall;
  readonly model: string;
  /** Seconds since 1970. */
  readonly created: number;
  /** `null`: the server does not say. */
  readonly cachedTokens: number | null;
};

type Json = Readonly<Record<string, unknown>>;

/** `from`: the place of the first token to show. */
export function choiceOf(
  tracker: ChoiceTracker,
  call: VllmCall,
  options: { readonly index: number; readonly from: number; readonly isFirst: boolean },
): Json {
  const { index, from, isFirst } = options;
  const ids = tracker.ids.slice(from);
  const logprobs = tracker.logprobs.slice(from);
  const finish = { finish_reason: tracker.finish?.reason ?? null };
  if (call.endpoint === "generate") {
    const content = ids.map((id, place) => {
      const logprob = Math.max(logprobs[place]!, -9999);
      const token = `token_id:${id}`;
      return { token, logprob, bytes: null, top_logprobs: [{ token, logprob, bytes: null }] };
    });
    return { index, logprobs: call.hasLogprobs ? { content } : null, ...finish, token_ids: ids, routed_experts: null };
  }
  const tokens = ids.map((id) => (call.tokensAsIds ? `token_id:${id}` : `<${id}>`));
  return {
    index,
    text: "",
    logprobs: call.hasLogprobs
      ? {
          text_offset: ids.map(() => 0),
          token_logprobs: logprobs.map((logprob) => Math.max(logprob, -9999)),
          tokens,
          top_logprobs: tokens.map((token, place) => ({ [token]: logprobs[place] })),
        }
      : null,
    ...finish,
    stop_reason: tracker.finish?.stopReason ?? null,
    token_ids: call.returnTokenIds ? ids : null,
    prompt_logprobs: null,
    prompt_token_ids: call.returnTokenIds && isFirst ? Array.from(call.promptIds) : null,
  };
}

export function wholeAnswer(facts: AnswerFacts, trackers: readonly ChoiceTracker[]): Json {
  const { call, model, created } = facts;
  const choices = trackers.map((tracker, index) => choiceOf(tracker, call, { index, from: 0, isFirst: true }));
  const usage = usageOf(facts, trackers);
  const rest = { prompt_logprobs: null, kv_transfer_params: null };
  if (call.endpoint === "generate") return { request_id: call.requestId, model, created, choices, usage, ...rest };
  const id = `cmpl-${call.requestId}`;
  return { id, object: "text_completion", created, model, choices, usage, kv_transfer_params: null };
}

export function chunkOf(facts: AnswerFacts, choices: readonly Json[], usage: Json | null = null): Json {
  const { call, model, created } = facts;
  const shared = { created, model, choices, usage };
  return call.endpoint === "generate"
    ? { request_id: call.requestId, ...shared }
    : { id: `cmpl-${call.requestId}`, object: "text_completion", ...shared };
}

export function usageOf(facts: AnswerFacts, trackers: readonly ChoiceTracker[]): Json {
  const prompt = facts.call.promptIds.length;
  const completion = trackers.reduce((sum, { ids }) => sum + ids.length, 0);
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    // Of no cached token the server says nothing, either.
    prompt_tokens_details: facts.cachedTokens ? { cached_tokens: facts.cachedTokens } : null,
  };
}
