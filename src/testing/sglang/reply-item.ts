// One item of a /generate answer, with the fields and the order of the reference.

import type { Tokenizer } from "../../core/tokenizer.ts";
import type { SequenceCall } from "./generate-body.ts";
import type { OutputTracker, WireFinish } from "./output-tracker.ts";

export type ReplyFacts = {
  readonly call: SequenceCall;
  readonly tracker: OutputTracker;
  readonly tokenizer: Tokenizer | null;
  readonly weightVersion: string;
  readonly cachedTokens: number;
  /** Seconds since the request came. */
  readonly latency: number;
};

/** How much of the ids a frame of a stream shows; `null`: all, as a whole answer does. */
export type Frame = { readonly newIdsFrom: number } | null;

export function replyItem(facts: ReplyFacts, frame: Frame = null): Readonly<Record<string, unknown>> {
  const { call, tracker } = facts;
  const { ids, finish } = tracker;
  return {
    ...textOf(tracker),
    output_ids: frame === null ? ids : ids.slice(frame.newIdsFrom),
    meta_info: {
      id: call.requestId,
      finish_reason: finish,
      prompt_tokens: call.promptIds.length,
      weight_version: facts.weightVersion,
      total_retractions: 0,
      ...(call.returnLogprob ? logprobLists(facts) : {}),
      completion_tokens: ids.length,
      cached_tokens: facts.cachedTokens,
      ...(finish === null ? {} : { e2e_latency: facts.latency }),
    },
  };
}

/** What becomes of a request that was aborted before it ran: neither prompt nor cached tokens are known. */
export function waitingAbortItem(facts: ReplyFacts): Readonly<Record<string, unknown>> {
  const finish: Partial<WireFinish> = { type: "abort", message: "Abort in waiting queue" };
  return {
    ...textOf(facts.tracker),
    output_ids: [],
    meta_info: {
      id: facts.call.requestId,
      finish_reason: finish,
      weight_version: facts.weightVersion,
      ...(facts.call.returnLogprob ? { input_token_logprobs: [], output_token_logprobs: [] } : {}),
      completion_tokens: 0,
      e2e_latency: facts.latency,
    },
  };
}

function textOf(tracker: OutputTracker): { readonly text?: string } {
  const text = tracker.text();
  return text === null ? {} : { text };
}

function logprobLists({ call, tracker, tokenizer }: ReplyFacts): Readonly<Record<string, unknown>> {
  const textOfId = (id: number): string | null =>
    call.returnTextInLogprobs && tokenizer !== null ? tokenizer.decode([id]) : null;
  const lastPromptId = call.promptIds[call.promptIds.length - 1]!;
  return {
    // The first listed prompt token has no score; from -1 on it is the only one.
    input_token_logprobs: [[null, lastPromptId, textOfId(lastPromptId)]],
    output_token_logprobs: tracker.ids.map((id, index) => [tracker.logprobs[index], id, textOfId(id)]),
  };
}
