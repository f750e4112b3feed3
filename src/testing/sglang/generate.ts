// One sequence from admission to its item: waits while generation is held, lets the sampler run, watches for the end, and
// turns every outcome (abort, refusal, fault of the wire) into the item or the error of the reference.

import type { Tokenizer } from "../../core/renderer.ts";
import type { Clock } from "../../lib/clock.ts";
import { type LiveRequest, type RunContext, runSequence, SequenceTracker } from "../front/run-sequence.ts";
import { isSamplerRefusal, WireFaultError } from "../front/sampler.ts";
import type { SequenceCall } from "./generate-body.ts";
import { type SglangProtocol, Refusal } from "./protocol.ts";

/** What all generations of a front share. */
export type GenerationContext = RunContext & {
  readonly tokenizer: Tokenizer | null;
  readonly clock: Clock;
  readonly protocol: SglangProtocol;
};

export type Generated = {
  /** Builds the item; in a stream the last frame. */
  readonly item: (frame: Frame) => unknown;
  /** How much of its bytes may be sent: 1 but for a fault of the wire. */
  readonly share: number;
};

/**
 * Runs one sequence. `onFrame` gets an item after every piece of output but the last. Rejects with a `Refusal`, or with the
 * `WireFaultError` of another answer.
 */
export async function generate(
  call: SequenceCall,
  context: GenerationContext,
  options: {
    readonly request: LiveRequest;
    readonly onFrame: ((facts: ReplyFacts) => void) | null;
  },
): Promise<Generated> {
  const { table, clock, tokenizer, version, protocol } = context;
  const { request, onFrame } = options;
  const tracker = new OutputTracker(call, tokenizer, protocol);
  let isFirst = true;
  const start = clock.now();
  const facts = (cachedTokens: number): ReplyFacts => ({
    call,
    tracker,
    tokenizer,
    weightVersion: version.current,
    cachedTokens,
    latency: (clock.now() - start) / 1000,
    sentAt: Date.now(),
    isFirst,
    protocol,
  });
  const showFrame = (): void => {
    onFrame?.(facts(0));
    isFirst = onFrame === null;
  };
  await table.admit(request);
  if (request.isAborted) return { item: () => waitingAbortItem(facts(0)), share: 1 };
  request.isRunning = true;
  const { promptIds, sampler: params, requestId, routingKey } = call;
  // A sequence without room for a token is not sampled.
  const { output, fault } =
    tracker.finish === null
      ? await runSequence({ promptIds, params, requestId, routingKey }, context, {
          live: request,
          tracker,
          onTokens: showFrame,
        }).catch((error: unknown) => {
          throw toRefusal(error);
        })
      : { output: null, fault: null };
  if (request.isAborted || output?.finish === "abort") tracker.end(abortedFinish);
  if (output?.finish === "length") tracker.end({ type: "length", length: tracker.ids.length });
  tracker.end({ type: "stop", matched: null });
  // Held answers leave when generation continues; the version they report is then the one of that moment.
  await table.thaw(request);
  const item = (frame: Frame): unknown => replyItem(facts(output?.cachedTokens ?? 0), frame);
  if (fault?.type === "edit") return { item: (frame) => fault.edit(item(frame)), share: 1 };
  return { item, share: fault?.type === "drop" ? fault.share : 1 };
}

function toRefusal(error: unknown): Error {
  if (error instanceof Refusal || error instanceof WireFaultError) return error;
  if (!isSamplerRefusal(error)) return Refusal.crash();
  return error.status === 400 ? Refusal.ofValue(error.message) : Refusal.ofScheduler(error.status, error.message);
}

/** As the wire shows it. */
export type WireFinish =
  | { readonly type: "stop"; readonly matched: number | string | null }
  | { readonly type: "length"; readonly length: number }
  | {
      readonly type: "abort";
      readonly message: string;
      readonly status_code: number | null;
      readonly err_type: string | null;
    };

const abortedFinish: WireFinish = { type: "abort", message: "Aborted", status_code: null, err_type: null };

export class OutputTracker extends SequenceTracker<WireFinish> {
  readonly #call: SequenceCall;
  readonly #tokenizer: Tokenizer | null;
  readonly #trimsStopPattern: boolean;

  constructor(call: SequenceCall, tokenizer: Tokenizer | null, options: { readonly trimsStopPattern: boolean }) {
    super();
    this.#call = call;
    this.#tokenizer = tokenizer;
    this.#trimsStopPattern = options.trimsStopPattern;
    if (call.sampler.maxNewTokens === 0) this.end({ type: "length", length: 0 });
  }

  /** The text so far, without what may still become part of a character or of a stop string; `null` without a tokenizer. */
  text(): string | null {
    if (this.#tokenizer === null) return null;
    const { output } = this.#call;
    const { finish } = this;
    const endsWithStop = finish?.type === "stop" && typeof finish.matched === "number";
    const text = this.#decode(endsWithStop && !output.noStopTrim ? this.ids.slice(0, -1) : this.ids);
    if (finish?.type === "stop" && typeof finish.matched === "string" && !output.noStopTrim) {
      return cutAtStop(text, finish.matched, this.#trimsStopPattern ? output.stopPatterns : []);
    }
    if (finish !== null) return text;
    return holdBack(text.replace(/\ufffd+$/, ""), output.stopStrings);
  }

  protected override look(): WireFinish | null {
    const { sampler, output } = this.#call;
    const { length } = this.ids;
    if (length >= sampler.maxNewTokens) return { type: "length", length: sampler.maxNewTokens };
    if (length < sampler.minNewTokens) return null;
    const last = this.ids[length - 1]!;
    if (sampler.stopTokenIds.has(last)) return { type: "stop", matched: last };
    if (this.#tokenizer === null || output.stopStrings.length + output.stopPatterns.length === 0) return null;
    const text = this.#decode(this.ids);
    const found =
      output.stopStrings.find((stop) => text.includes(stop)) ??
      output.stopPatterns.find((pattern) => pattern.test(text))?.source;
    return found === undefined ? null : { type: "stop", matched: found };
  }

  #decode(ids: readonly number[]): string {
    const { skipSpecialTokens } = this.#call.output;
    return ids.length === 0 ? "" : (this.#tokenizer?.decode(ids, { skipSpecialTokens }) ?? "");
  }
}

function cutAtStop(text: string, matched: string, patterns: readonly RegExp[]): string {
  const pattern = patterns.find(({ source }) => source === matched);
  const place = pattern === undefined ? text.indexOf(matched) : text.search(pattern);
  return place < 0 ? text : text.slice(0, place);
}

/** Leaves out the longest end of the text with which a stop string may begin. */
function holdBack(text: string, stops: readonly string[]): string {
  let held = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > held; length--) {
      if (text.endsWith(stop.slice(0, length))) held = length;
    }
  }
  return text.slice(0, text.length - held);
}

type ReplyFacts = {
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
function waitingAbortItem(facts: ReplyFacts): Readonly<Record<string, unknown>> {
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
