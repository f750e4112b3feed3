// What the two endpoints answer: whole, and in chunks whose ids and logprobs are what is new since the last one.

import type { Tokenizer } from "../../core/renderer.ts";
import type { ChoiceTracker } from "./choice-tracker.ts";
import type { VllmProtocol } from "./protocol.ts";
import type { VllmCall } from "./read-call.ts";

export type AnswerFacts = {
  readonly call: VllmCall;
  readonly model: string;
  readonly protocol: VllmProtocol;
  /** `null`: completions have no text. */
  readonly tokenizer: Tokenizer | null;
  /** Seconds since 1970. */
  readonly created: number;
  /** `null`: the server does not say. */
  readonly cachedTokens: number | null;
  /** Of the weights, for a reply without tokens. */
  readonly weightVersion: string;
};

type Json = Readonly<Record<string, unknown>>;

/** `from`: the place of the first token to show. `isChunk`: part of a stream. */
export function choiceOf(
  tracker: ChoiceTracker,
  facts: AnswerFacts,
  options: { readonly index: number; readonly from: number; readonly isChunk: boolean },
): Json {
  const { call, protocol } = facts;
  const { index, from, isChunk } = options;
  const ids = tracker.ids.slice(from);
  const logprobs = tracker.logprobs.slice(from).map((logprob) => Math.max(logprob, -9999));
  const finish = { finish_reason: tracker.finish?.reason ?? null };
  const stop = { stop_reason: tracker.finish?.stopReason ?? null };
  const hasNew = protocol.newFields;
  if (call.endpoint === "generate") {
    const content = ids.map((id, place) => generateLogprob(id, logprobs[place]!, protocol));
    return {
      index,
      logprobs: call.hasLogprobs ? { content } : null,
      ...finish,
      ...(hasNew ? stop : {}),
      token_ids: ids,
      routed_experts: null,
      ...(hasNew ? { sampling_mask: null, weight_versions: spansOf(tracker, facts) } : {}),
    };
  }
  const shownTokens = ids.map((id) => (call.tokensAsIds ? `token_id:${id}` : textOf([id], facts, `<${id}>`)));
  const promptIds = call.returnTokenIds && from === 0 ? Array.from(call.promptIds) : null;
  // The offset of a token counts what stands before it, as it is shown.
  let offset = tracker.ids.slice(0, from).reduce((sum, id) => sum + shownLength(id, facts), 0);
  const offsets = ids.map((id) => {
    const start = offset;
    offset += shownLength(id, facts);
    return start;
  });
  return {
    index,
    text: completionText(tracker, facts, from),
    logprobs: call.hasLogprobs
      ? {
          text_offset: offsets,
          token_logprobs: logprobs,
          tokens: shownTokens,
          top_logprobs: shownTokens.map((token, place) => ({ [token]: logprobs[place] })),
        }
      : null,
    ...finish,
    ...stop,
    token_ids: call.returnTokenIds ? ids : null,
    prompt_token_ids: promptIds,
    ...(hasNew && isChunk ? {} : { prompt_logprobs: null }),
    ...(hasNew && !isChunk ? { routed_experts: null } : {}),
  };
}

function generateLogprob(id: number, logprob: number, protocol: VllmProtocol): Json {
  // The rank of a sampled token is not known here, and no client of ours reads it.
  const entry: Json =
    protocol.generateTokens === "ids"
      ? { token_id: id, logprob, rank: null }
      : { token: `token_id:${id}`, logprob, bytes: null };
  return { ...entry, top_logprobs: [entry] };
}

/** On what ends a completion only. */
function spansOf({ finish, versions }: ChoiceTracker, { weightVersion }: AnswerFacts): unknown {
  if (finish === null) return null;
  return versions.length > 0 ? versions : [{ version: weightVersion, start: 0, end: 0 }];
}

function textOf(ids: readonly number[], { tokenizer }: AnswerFacts, absent: string): string {
  if (tokenizer === null) return absent;
  return ids.length === 0 ? "" : tokenizer.decode(ids, { skipSpecialTokens: true });
}

function shownLength(id: number, facts: AnswerFacts): number {
  if (facts.tokenizer === null) return 0;
  return facts.call.tokensAsIds ? `token_id:${id}`.length : textOf([id], facts, "").length;
}

function completionText({ ids, finish }: ChoiceTracker, facts: AnswerFacts, from: number): string {
  const isStopped = finish?.reason === "stop" && ids.length > 0;
  const shown = isStopped ? ids.slice(0, -1) : ids;
  return textOf(shown, facts, "").slice(textOf(ids.slice(0, from), facts, "").length);
}

export function wholeAnswer(facts: AnswerFacts, trackers: readonly ChoiceTracker[]): Json {
  const { call, model, created, protocol } = facts;
  const choices = trackers.map((tracker, index) => choiceOf(tracker, facts, { index, from: 0, isChunk: false }));
  const usage = usageOf(facts, trackers);
  const rest = { prompt_logprobs: null, kv_transfer_params: null };
  const hasNew = protocol.newFields;
  if (call.endpoint === "generate") {
    const added = {
      output_mode: "tokens",
      prompt_token_id_logprobs: null,
      prompt_token_ids: null,
      mm_placeholders: null,
      metrics: null,
      ec_transfer_params: null,
    };
    return { request_id: call.requestId, model, created, choices, usage, ...rest, ...(hasNew ? added : {}) };
  }
  const id = `cmpl-${call.requestId}`;
  const fingerprint = `vllm-${protocol.version}`;
  return {
    id,
    object: "text_completion",
    created,
    model,
    choices,
    ...(hasNew ? { service_tier: null, system_fingerprint: fingerprint } : {}),
    usage,
    kv_transfer_params: null,
    ...(hasNew ? { ec_transfer_params: null, metrics: null } : {}),
  };
}

/** `usage`: of the last chunk, which then has no choices; `null` elsewhere. */
export function chunkOf(facts: AnswerFacts, choices: readonly Json[], usage: Json | null = null): Json {
  const { call, model, created, protocol } = facts;
  if (call.endpoint === "generate") {
    if (!protocol.newFields) return { request_id: call.requestId, created, model, choices, usage };
    return { request_id: call.requestId, usage, output_mode: "tokens", choices };
  }
  const shared = { id: `cmpl-${call.requestId}`, object: "text_completion", created, model, choices };
  return protocol.newFields && usage === null ? shared : { ...shared, usage };
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
    ...(facts.protocol.newFields ? { completion_tokens_details: null } : {}),
  };
}
