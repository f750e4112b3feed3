// POST /generate: takes a body and gives an answer, whole or as server-sent events. Every outcome
// of a sequence (abort, refusal, fault of the wire) becomes the item or the error that the
// reference gives.

import type { Context } from "hono";

import type { Tokenizer } from "../../core/tokenizer.ts";
import type { Clock } from "../../lib/clock.ts";
import { type AnswerWriter, type FrontEnvironment, serveGeneration } from "../front/front-server.ts";
import { type LiveRequest, type RunContext, runSequence, SequenceTracker, withFault } from "../front/run-sequence.ts";
import { itemText } from "../front/sampler.ts";
import { type SglangProtocol, Refusal } from "./protocol.ts";
import {
  boolean,
  type GenerateCall,
  type ModelLimits,
  parseFields,
  readGenerateCall,
  type SequenceCall,
} from "./read-request.ts";

/** Parts that all generations of a front share. */
export type GenerationContext = RunContext & {
  readonly clock: Clock;
  readonly limits: ModelLimits;
  /** Content of a frame in a stream: all output so far, or only the new part. */
  readonly streamOutput: "cumulative" | "delta";
  /** The function of the same name in `SglangFrontOptions`; `null` if the model has no experts. */
  readonly routedExperts: ((sequence: ArrayLike<number>, place: number) => readonly number[]) | null;
  /** The function of the same name in `SglangFrontOptions`; `null` if kept ids are not reported. */
  readonly samplingMask: ((sequence: ArrayLike<number>, place: number) => readonly number[]) | null;
};

/** Returns the response for the framework. Rejects with a `Refusal`, and then nothing was written. */
export async function serveGenerate(http: Context<FrontEnvironment>, context: GenerationContext): Promise<Response> {
  const { table, limits } = context;
  const { headers } = http.req.raw;
  const fields = parseFields(await http.req.text());
  const open = () => {
    const call = readGenerateCall(fields, limits, headers.get("x-smg-routing-key"));
    const ids = call.sequences.map(({ requestId }) => requestId);
    const duplicate = ids.find((id, index) => table.isLive(id) || ids.indexOf(id) < index);
    if (duplicate !== undefined) throw Refusal.ofValue(`Duplicate request ID detected: ${duplicate}`);
    const live = ids.map((id) => table.open(id));
    const sequences = call.sequences.map((sequence, index) => ({ sequence, live: live[index]!, index }));
    return {
      live,
      whole: async () => {
        const answers = await Promise.all(sequences.map(async (one) => (await generate(one, context, null))(null)));
        const text = answers.map((answer) => answer.text).join(",");
        return { text: call.isList ? `[${text}]` : text, share: Math.min(...answers.map(({ share }) => share)) };
      },
      stream: async (writer: AnswerWriter) => {
        await Promise.all(sequences.map((one) => streamSequence(one, call, { context, writer })));
      },
    };
  };
  const isStream = boolean(fields["stream"], "stream");
  const fail = (writer: AnswerWriter, error: unknown): void => endWith(writer, error, limits.protocol);
  return serveGeneration(http, table, { isStream, opensInStream: true, open, fail });
}

type LiveSequence = { readonly sequence: SequenceCall; readonly live: LiveRequest; readonly index: number };

async function streamSequence(
  one: LiveSequence,
  call: GenerateCall,
  { context, writer }: { readonly context: GenerationContext; readonly writer: AnswerWriter },
): Promise<void> {
  let shown = 0;
  let shownText = 0;
  const isDelta = context.streamOutput === "delta";
  const frame = (): Frame => (isDelta ? { newIdsFrom: shown, newTextFrom: shownText } : null);
  const mark = (item: object): object => (call.isList ? { ...item, index: one.index } : item);
  try {
    const answer = await generate(one, context, (facts) => {
      const { length } = facts.tracker.ids;
      if (shown > 0 && length - shown < call.streamInterval) return;
      writer.event(itemText(mark(replyItem(facts, frame()))));
      shown = length;
      if (isDelta) shownText = facts.tracker.text()?.length ?? 0;
    });
    const { text, share } = answer(frame(), mark);
    writer.event(text, share);
  } catch (error) {
    if (!(error instanceof Refusal) || error.kind !== "scheduler") throw error;
    const { message, status } = error;
    const finish = { type: "abort", message, status_code: status, err_type: null };
    const meta = { id: one.sequence.requestId, finish_reason: finish, completion_tokens: 0 };
    writer.event(itemText(mark({ text: "", output_ids: [], meta_info: meta })));
  }
}

function endWith(writer: AnswerWriter, thrown: unknown, protocol: SglangProtocol): void {
  const error = thrown instanceof Refusal ? thrown.asReportedBy(protocol) : Refusal.crash();
  const { kind, message, status: code } = error;
  if (kind === "value") {
    const details = { type: "invalid_request_error", code, retryable: false };
    writer.event(JSON.stringify({ error: { message, ...(protocol.detailedStreamErrors ? details : {}) } }));
    writer.event("[DONE]");
    writer.end();
  } else if (kind === "crash") {
    writer.event("", 0);
  } else {
    writer.whole(error.toAnswer());
  }
}

/** The end of a sequence: its item in the form that is sent; in a stream, the last frame. */
type Answer = (frame: Frame, mark?: (item: object) => object) => { readonly text: string; readonly share: number };

/**
 * Runs one sequence. `onFrame` receives the facts after every piece of output except the last.
 * Rejects with a `Refusal`, or with the `WireFaultError` of another answer.
 */
async function generate(
  { sequence: call, live }: LiveSequence,
  context: GenerationContext,
  onFrame: ((facts: ReplyFacts) => void) | null,
): Promise<Answer> {
  const { clock, limits, version, routedExperts, samplingMask } = context;
  const { promptIds, sampler: params, requestId, routingKey, adapter } = call;
  const tracker = new OutputTracker(call, limits);
  let isFirst = true;
  const start = clock.now();
  const facts = (cachedTokens: number): ReplyFacts => ({
    call,
    tracker,
    tokenizer: limits.tokenizer,
    weightVersion: version.current,
    cachedTokens,
    latency: (clock.now() - start) / 1000,
    sentAt: Date.now(),
    isFirst,
    protocol: limits.protocol,
    routedExperts,
    samplingMask,
  });
  const onTokens = (): void => {
    onFrame?.(facts(0));
    isFirst = onFrame === null;
  };
  const request = { promptIds, params, requestId, routingKey, ...(adapter === null ? {} : { adapter }) };
  const run = () => runSequence(request, context, { live, tracker, onTokens });
  const { hasRun, cachedTokens, fault } = await (adapter === null ? run() : adapter.hold(run));
  const item = (frame: Frame): object =>
    hasRun ? replyItem(facts(cachedTokens), frame) : waitingAbortItem(facts(cachedTokens));
  return (frame, mark = (unmarked) => unmarked) => withFault(mark(item(frame)), fault);
}

/** The finish reason on the wire. */
type WireFinish =
  | { readonly type: "stop"; readonly matched: number | string | null }
  | { readonly type: "length"; readonly length: number }
  | { readonly type: "abort"; readonly message: string; readonly status_code: null; readonly err_type: null };

class OutputTracker extends SequenceTracker<WireFinish> {
  readonly #call: SequenceCall;
  readonly #tokenizer: Tokenizer | null;
  readonly #trimsStopPattern: boolean;

  constructor(call: SequenceCall, { tokenizer, protocol }: ModelLimits) {
    super();
    this.#call = call;
    this.#tokenizer = tokenizer;
    this.#trimsStopPattern = protocol.trimsStopPattern;
    if (call.sampler.maxNewTokens === 0) this.end("length");
  }

  /**
   * The text so far, without the end that may still become part of a character or of a stop string;
   * `null` without a tokenizer.
   */
  text(): string | null {
    if (this.#tokenizer === null) return null;
    const { stopStrings, stopPatterns, noStopTrim } = this.#call.output;
    if (this.finish === null) return holdBack(this.#decode(this.ids).replace(/\ufffd+$/, ""), stopStrings);
    const stop = this.finish.type === "stop" && !noStopTrim ? this.finish.matched : null;
    const text = this.#decode(typeof stop === "number" ? this.ids.slice(0, -1) : this.ids);
    if (typeof stop !== "string") return text;
    const pattern = this.#trimsStopPattern ? stopPatterns.find(({ source }) => source === stop) : undefined;
    const place = pattern === undefined ? text.indexOf(stop) : text.search(pattern);
    return place < 0 ? text : text.slice(0, place);
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

  protected override endedBy(how: "stop" | "length" | "abort"): WireFinish {
    if (how === "stop") return { type: how, matched: null };
    if (how === "length") return { type: how, length: this.ids.length };
    return { type: how, message: "Aborted", status_code: null, err_type: null };
  }

  #decode(ids: readonly number[]): string {
    const { skipSpecialTokens } = this.#call.output;
    return ids.length === 0 ? "" : (this.#tokenizer?.decode(ids, { skipSpecialTokens }) ?? "");
  }
}

/** Removes the longest end of the text with which a stop string may begin. */
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
  /** Seconds since the request arrived. */
  readonly latency: number;
  /** Milliseconds since 1970. */
  readonly sentAt: number;
  /** True for a whole reply, or the first frame of a stream. */
  readonly isFirst: boolean;
  readonly protocol: SglangProtocol;
  readonly routedExperts: GenerationContext["routedExperts"];
  readonly samplingMask: GenerationContext["samplingMask"];
};

/** Kept ids of the tokens from index `from` on, and the logprobs over them. */
function maskOf({ call, tracker, samplingMask }: ReplyFacts, from = 0): object {
  if (samplingMask === null || !call.returnSamplingMask) return {};
  const sequence = [...call.promptIds, ...tracker.ids];
  return {
    output_token_sampling_mask: tracker.ids
      .slice(from)
      .map((_, index) => samplingMask(sequence, call.promptIds.length + from + index)),
    output_token_sampling_logprobs: tracker.logprobs.slice(from),
    output_token_sampling_mask_length: tracker.ids.length,
  };
}

/**
 * Experts as Base64 of little-endian int32, by token, layer and choice; the last token was never
 * fed, and has none.
 */
function expertsOf({ call, tracker, routedExperts }: ReplyFacts): object {
  if (routedExperts === null || call.expertsFrom === null || tracker.finish === null) return {};
  const sequence = [...call.promptIds, ...tracker.ids];
  const numbers: number[] = [];
  for (let place = call.expertsFrom; place < sequence.length - 1; place++)
    numbers.push(...routedExperts(sequence, place));
  const bytes = Buffer.alloc(numbers.length * 4);
  numbers.forEach((number, at) => bytes.writeInt32LE(number, at * 4));
  return { routed_experts: bytes.toString("base64") };
}

/**
 * Start of the new part of ids and text in a frame of a stream; `null` for a frame that shows
 * everything, like a whole answer.
 */
type Frame = { readonly newIdsFrom: number; readonly newTextFrom: number } | null;

function replyItem(facts: ReplyFacts, frame: Frame): object {
  const { call, tracker, protocol, cachedTokens, weightVersion } = facts;
  const { ids, finish } = tracker;
  const part = protocol.deltas === "all" ? frame : null;
  const hasNew = protocol.newMetaFields;
  const spans = tracker.versions(weightVersion);
  const namesLast = protocol.weightVersionOf === "last-token" && finish !== null;
  const added = {
    // A reply without tokens names the weights as well.
    ...(finish === null ? {} : { weight_versions: spans }),
    cached_tokens_details: cachedTokens > 0 ? { device: cachedTokens, host: 0 } : null,
    dp_rank: null,
  };
  return {
    ...textOf(tracker, part?.newTextFrom),
    output_ids: frame === null ? ids : ids.slice(frame.newIdsFrom),
    meta_info: {
      id: call.requestId,
      finish_reason: finish,
      prompt_tokens: call.promptIds.length,
      weight_version: namesLast ? spans.at(-1)!.version : weightVersion,
      [protocol.retractionsField]: 0,
      ...(call.returnLogprob ? logprobLists(facts, part?.newIdsFrom) : {}),
      ...maskOf(facts, part?.newIdsFrom),
      ...(hasNew ? { reasoning_tokens: 0 } : {}),
      completion_tokens: ids.length,
      cached_tokens: cachedTokens,
      ...(hasNew ? added : {}),
      ...expertsOf(facts),
      ...(finish === null ? {} : { e2e_latency: facts.latency }),
      ...(hasNew && facts.isFirst ? { response_sent_to_client_ts: facts.sentAt / 1000 } : {}),
    },
    ...(call.returnPromptIds ? { prompt_token_ids: Array.from(call.promptIds) } : {}),
  };
}

/** The item of a request that was aborted before it ran: neither prompt nor cached tokens are known. */
function waitingAbortItem(facts: ReplyFacts): object {
  return {
    ...textOf(facts.tracker),
    output_ids: [],
    meta_info: {
      id: facts.call.requestId,
      finish_reason: { type: "abort", message: "Abort in waiting queue" },
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

function logprobLists({ call, tracker, tokenizer, protocol }: ReplyFacts, from = 0): object {
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
