// One item of a /generate answer, with the fields and the order of the reference.

import type { Tokenizer } from "../../core/renderer.ts";
import type { SequenceCall } from "./generate-body.ts";
import type { OutputTracker, WireFinish } from "./output-tracker.ts";
import type { SglangProtocol } from "./protocol.ts";

export type ReplyFacts = {
  readonly call: SequenceCall;
  readonly tracker: OutputTracker;
  readonly tokenizer: Tokenizer | null;
  readonly weightVersion: string;
  readonly cachedTokens: number;
  /** Seconds since the request came. */
  readonly latency: number;
  /** Milliseconds since 1970. */
  readonly sentAt: number;
  /** The whole reply, or the first frame of a stream. */
  readonly isFirst: boolean;
  readonly protocol: SglangProtocol;
};

/** Where the new part of ids and text begins in a frame of a stream; `null`: it shows all, as a whole answer does. */
export type Frame = { readonly newIdsFrom: number; readonly newTextFrom: number } | null;

export function replyItem(facts: ReplyFacts, frame: Frame = null): Readonly<Record<string, unknown>> {
  const { call, tracker, protocol } = facts;
  const { ids, finish } = tracker;
  const isFinished = finish !== null;
  const part = protocol.deltas === "all" ? frame : null;
  return {
    ...textOf(tracker, part?.newTextFrom),
    output_ids: frame === null ? ids : ids.slice(frame.newIdsFrom),
    meta_info: {
      id: call.requestId,
      finish_reason: finish,
      prompt_tokens: call.promptIds.length,
      weight_version: protocol.weightVersionOf === "last-token" ? lastVersion(facts) : facts.weightVersion,
      [protocol.retractionsField]: 0,
      ...(call.returnLogprob ? logprobLists(facts, part?.newIdsFrom) : {}),
      ...(protocol.newMetaFields ? { reasoning_tokens: 0 } : {}),
      completion_tokens: ids.length,
      cached_tokens: facts.cachedTokens,
      ...(protocol.newMetaFields ? newFields(facts) : {}),
      ...(isFinished ? { e2e_latency: facts.latency } : {}),
      ...(protocol.newMetaFields && facts.isFirst ? { response_sent_to_client_ts: facts.sentAt / 1000 } : {}),
    },
    ...(call.returnPromptIds ? { prompt_token_ids: Array.from(call.promptIds) } : {}),
  };
}

function newFields({ tracker, cachedTokens, weightVersion }: ReplyFacts): Readonly<Record<string, unknown>> {
  const { finish, versions } = tracker;
  // A reply without tokens names the weights too.
  const spans = versions.length > 0 ? versions : [{ version: weightVersion, start: 0, end: 0 }];
  return {
    ...(finish === null ? {} : { weight_versions: spans }),
    cached_tokens_details: cachedTokens > 0 ? { device: cachedTokens, host: 0 } : null,
    dp_rank: null,
  };
}

function lastVersion({ tracker, weightVersion }: ReplyFacts): string {
  return tracker.finish === null ? weightVersion : (tracker.versions.at(-1)?.version ?? weightVersion);
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

function textOf(tracker: OutputTracker, from = 0): { readonly text?: string } {
  const text = tracker.text();
  return text === null ? {} : { text: text.slice(from) };
}

function logprobLists({ call, tracker, tokenizer, protocol }: ReplyFacts, from = 0): Readonly<Record<string, unknown>> {
  const textOfId = (id: number): string | null =>
    call.returnTextInLogprobs && tokenizer !== null ? tokenizer.decode([id]) : null;
  const lastPromptId = call.promptIds[call.promptIds.length - 1]!;
  return {
    // The first listed prompt token has no score.
    input_token_logprobs: protocol.listsLastPromptToken ? [[null, lastPromptId, textOfId(lastPromptId)]] : [],
    output_token_logprobs: tracker.ids
      .slice(from)
      .map((id, index) => [tracker.logprobs[from + index], id, textOfId(id)]),
    ...(protocol.newMetaFields ? { output_token_logprobs_length: tracker.ids.length } : {}),
  };
}
