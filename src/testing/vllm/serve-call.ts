// One POST to either endpoint: a body in, an answer out, whole or as server-sent events. What is wrong with the request is
// said with its status; what goes wrong later, inside an open stream, as a chunk. A client that goes away aborts its call. Then: the
// run of a call, and the shapes of both endpoints' answers, whole and in chunks of what is new since the last one.

import type { Tokenizer } from "../../core/renderer.ts";
import {
  type AnswerWriter,
  type OpenWriter,
  sendData,
  sendShare,
  type WholeAnswer,
  wireAnswer,
} from "../front/front-server.ts";
import {
  type LiveRequest,
  type RunContext,
  SequenceTracker,
  runSequence,
  type SequenceOutcome,
} from "../front/run-sequence.ts";
import { itemText, WireFaultError, isSamplerRefusal } from "../front/sampler.ts";
import { VllmRefusal, type VllmProtocol } from "./protocol.ts";
import { readCall, type VllmCall, type VllmEndpoint, type VllmLimits } from "./read-call.ts";

export type ServeOptions = {
  readonly endpoint: VllmEndpoint;
  readonly context: RunContext;
  readonly limits: VllmLimits;
  readonly tokenizer: Tokenizer | null;
  /** Whether usage tells cached tokens (--enable-prompt-tokens-details). */
  readonly tellsCachedTokens: boolean;
  /** Puts a call among those that can be aborted; the returned function takes it out. */
  readonly open: (call: VllmCall) => { readonly live: LiveRequest; readonly end: () => void };
  readonly openWriter: OpenWriter;
};

/** Gives what the framework is to be given. Rejects with a `VllmRefusal`, and then nothing was written. */
export async function serveCall(request: Request, options: ServeOptions): Promise<Response> {
  const call = readCall(await readBody(request), { ...options, routingKey: request.headers.get("x-session-id") });
  const opened = options.open(call);
  const { live } = opened;
  const abort = (): void => live.abort();
  if (request.signal.aborted) abort();
  request.signal.addEventListener("abort", abort, { once: true });
  const close = (): void => {
    request.signal.removeEventListener("abort", abort);
    opened.end();
  };
  if (call.stream) {
    const writer = options.openWriter(abort);
    void streamAnswer(call, live, { writer, options }).finally(close);
    return writer.response;
  }
  try {
    const answer = await answerWhole(call, live, options);
    const writer = options.openWriter(abort);
    writer.whole(answer);
    return await writer.response;
  } finally {
    close();
  }
}

async function readBody(request: Request): Promise<unknown> {
  const isJson = request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase() === "application/json";
  if (!isJson) throw new VllmRefusal(400, "Unsupported Media Type: Only 'application/json' is allowed");
  try {
    return JSON.parse(await request.text()) as unknown;
  } catch {
    throw new VllmRefusal(400, "body: JSON decode error");
  }
}

function factsOf(call: VllmCall, options: ServeOptions, cachedTokens: number): AnswerFacts {
  const { limits, tokenizer, tellsCachedTokens, context } = options;
  return {
    call,
    model: limits.model,
    protocol: limits.protocol,
    tokenizer,
    created: 0,
    cachedTokens: tellsCachedTokens ? cachedTokens : null,
    weightVersion: context.version.current,
  };
}

async function answerWhole(call: VllmCall, live: LiveRequest, options: ServeOptions): Promise<WholeAnswer> {
  try {
    const done = await runCompletions(call, options.context, { live, onTokens: () => undefined });
    const item = wholeAnswer(factsOf(call, options, done.cachedTokens), done.trackers);
    const text = itemText(edited(done, item));
    return { status: 200, headers: { "content-type": "application/json" }, text, share: shareOf(done) };
  } catch (error) {
    const answer = wireAnswer(error);
    if (answer === null) throw error;
    return answer;
  }
}

/** Never rejects. */
async function streamAnswer(
  call: VllmCall,
  live: LiveRequest,
  output: { readonly writer: AnswerWriter; readonly options: ServeOptions },
): Promise<void> {
  const { writer, options } = output;
  const shown = Array.from({ length: call.n }, () => 0);
  const send = (data: string): void => sendData(writer, data);
  const next = (tracker: Parameters<typeof choiceOf>[0], facts: AnswerFacts, index: number) => {
    const from = shown[index]!;
    shown[index] = tracker.ids.length;
    return choiceOf(tracker, facts, { index, from, isChunk: true });
  };
  const { protocol } = options.limits;
  try {
    const early = factsOf(call, options, 0);
    const done = await runCompletions(call, options.context, {
      live,
      onTokens: (tracker, index) => send(JSON.stringify(chunkOf(early, [next(tracker, early, index)]))),
    });
    const facts = factsOf(call, options, done.cachedTokens);
    for (const [index, tracker] of done.trackers.entries()) {
      // Before 0.32 chunks without tokens are not sent, and with them goes the finish reason of an aborted request.
      const isEmpty = tracker.ids.length === (call.endpoint === "generate" ? shown[index] : 0);
      const isLost = isEmpty && tracker.finish?.reason === "abort" && !protocol.streamsAbort;
      if (isLost && done.fault === null) continue;
      const text = itemText(edited(done, chunkOf(facts, [next(tracker, facts, index)])));
      if (!sendShare(writer, text, shareOf(done))) return;
    }
    if (call.includeUsage) send(JSON.stringify(chunkOf(facts, [], usageOf(facts, done.trackers))));
    send("[DONE]");
    writer.end();
  } catch (error) {
    const answer = wireAnswer(error);
    if (answer !== null) return writer.whole(answer);
    const refusal = error instanceof VllmRefusal ? error : new VllmRefusal(500, "Internal server error");
    send(JSON.stringify(refusal.toBody(protocol)));
    send("[DONE]");
    writer.end();
  }
}

function edited(done: CompletedRun, item: unknown): unknown {
  return done.fault?.type === "edit" ? done.fault.edit(item) : item;
}

function shareOf(done: CompletedRun): number {
  return done.fault?.type === "drop" ? done.fault.share : 1;
}

type ChoiceFinish = {
  readonly reason: "stop" | "length" | "abort";
  /** The requested stop token; `null` for the model's own end tokens. */
  readonly stopReason: number | null;
};

export class ChoiceTracker extends SequenceTracker<ChoiceFinish> {
  readonly #call: VllmCall;

  constructor(call: VllmCall) {
    super();
    this.#call = call;
  }

  protected override look(): ChoiceFinish | null {
    const { sampler, endTokenIds } = this.#call;
    const { length } = this.ids;
    const last = this.ids[length - 1]!;
    if (length >= sampler.minNewTokens) {
      if (endTokenIds.has(last)) return { reason: "stop", stopReason: null };
      if (sampler.stopTokenIds.has(last)) return { reason: "stop", stopReason: last };
    }
    return length >= sampler.maxNewTokens ? { reason: "length", stopReason: null } : null;
  }
}

type CompletedRun = {
  /** One for each completion. */
  readonly trackers: readonly ChoiceTracker[];
  readonly cachedTokens: number;
  readonly fault: SequenceOutcome["fault"];
};

/**
 * `onTokens` is called after every piece of output, with the completion's place. Rejects with a `VllmRefusal`, or with the
 * `WireFaultError` of another answer.
 */
async function runCompletions(
  call: VllmCall,
  context: RunContext,
  options: { readonly live: LiveRequest; readonly onTokens: (tracker: ChoiceTracker, index: number) => void },
): Promise<CompletedRun> {
  const { table } = context;
  const { live, onTokens } = options;
  const trackers = Array.from({ length: call.n }, () => new ChoiceTracker(call));
  await table.admit(live);
  let cachedTokens = 0;
  let fault: CompletedRun["fault"] = null;
  if (!live.isAborted) {
    live.isRunning = true;
    const { promptIds, sampler: params, requestId, routingKey } = call;
    const outcomes = await Promise.all(
      trackers.map(async (tracker, index) => {
        const request = { promptIds, params, requestId, routingKey };
        const outcome = await runSequence(request, context, {
          live,
          tracker,
          onTokens: () => onTokens(tracker, index),
        }).catch((error: unknown) => {
          throw toRefusal(error);
        });
        const { output } = outcome;
        if (output !== null && output.finish !== "end") tracker.end({ reason: output.finish, stopReason: null });
        return outcome;
      }),
    );
    cachedTokens = outcomes[0]?.output?.cachedTokens ?? 0;
    fault = outcomes.find((outcome) => outcome.fault !== null)?.fault ?? null;
  }
  for (const tracker of trackers) tracker.end({ reason: live.isAborted ? "abort" : "stop", stopReason: null });
  await table.thaw(live);
  return { trackers, cachedTokens, fault };
}

function toRefusal(error: unknown): Error {
  if (error instanceof WireFaultError) return error;
  if (isSamplerRefusal(error)) return new VllmRefusal(error.status, error.message);
  return new VllmRefusal(500, "Internal server error");
}

type AnswerFacts = {
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
function choiceOf(
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

function wholeAnswer(facts: AnswerFacts, trackers: readonly ChoiceTracker[]): Json {
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
function chunkOf(facts: AnswerFacts, choices: readonly Json[], usage: Json | null = null): Json {
  const { call, model, created, protocol } = facts;
  if (call.endpoint === "generate") {
    if (!protocol.newFields) return { request_id: call.requestId, created, model, choices, usage };
    return { request_id: call.requestId, usage, output_mode: "tokens", choices };
  }
  const shared = { id: `cmpl-${call.requestId}`, object: "text_completion", created, model, choices };
  return protocol.newFields && usage === null ? shared : { ...shared, usage };
}

function usageOf(facts: AnswerFacts, trackers: readonly ChoiceTracker[]): Json {
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
