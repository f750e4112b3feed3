// One POST to either endpoint: takes a body and gives an answer, whole or as server-sent events.
// Errors of the request are answered with their status; later errors, inside an open stream, as a
// chunk. The file also holds the shapes of both endpoints' answers, whole and in chunks of the
// output that is new since the last one.

import type { Context } from "hono";

import type { Tokenizer } from "../../core/tokenizer.ts";
import { type AnswerWriter, type FrontEnvironment, serveGeneration } from "../front/front-server.ts";
import { type LiveRequest, type RunContext, runSequence, SequenceTracker, withFault } from "../front/run-sequence.ts";
import { VllmRefusal, type VllmProtocol } from "./protocol.ts";
import { readCall, type VllmCall, type VllmEndpoint, type VllmLimits } from "./read-call.ts";

export type ServeContext = RunContext & {
  readonly limits: VllmLimits;
  readonly tokenizer: Tokenizer | null;
  /** True if usage reports cached tokens (--enable-prompt-tokens-details). */
  readonly reportsCachedTokens: boolean;
  /** The functions of the same names in `VllmFrontOptions`; `null` if they are not reported. */
  readonly routedExperts: ((sequence: ArrayLike<number>, place: number) => readonly (readonly number[])[]) | null;
  readonly samplingMask: ((sequence: ArrayLike<number>, place: number) => readonly number[]) | null;
};

/**
 * The same id may be live twice: the server distinguishes calls by names of its own, to which we
 * append a number.
 */
let opened = 0;

/** The server's name of a live call: the name of its endpoint before the client's id. */
export function serverName(liveId: string): string {
  return liveId.slice(0, liveId.lastIndexOf(":"));
}

/**
 * Returns the response for the framework. Rejects with a `VllmRefusal`, and then nothing was
 * written.
 */
export async function serveCall(
  http: Context<FrontEnvironment>,
  context: ServeContext,
  endpoint: VllmEndpoint,
): Promise<Response> {
  const { limits, table } = context;
  const routingKey = http.req.header("x-session-id") ?? null;
  const call = readCall(await readBody(http.req.raw), { endpoint, limits, routingKey });
  const open = () => {
    const name = endpoint === "generate" ? `generate-tokens-${call.requestId}` : `cmpl-${call.requestId}-0`;
    const live = table.open(`${name}:${++opened}`);
    return {
      live: [live],
      whole: async () => {
        const { trackers, cachedTokens, fault } = await runCompletions(call, context, { live, onTokens: () => {} });
        return withFault(wholeAnswer(factsOf(call, context, cachedTokens), trackers), fault);
      },
      stream: (writer: AnswerWriter) => stream(call, context, { live, writer }),
    };
  };
  const fail = (writer: AnswerWriter, error: unknown): void => {
    const refusal = error instanceof VllmRefusal ? error : new VllmRefusal(500, "Internal server error");
    writer.event(JSON.stringify(refusal.toBody(limits.protocol)));
    writer.event("[DONE]");
    writer.end();
  };
  return serveGeneration(http, table, { isStream: call.stream, opensInStream: false, open, fail });
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

function factsOf(call: VllmCall, context: ServeContext, cachedTokens: number): AnswerFacts {
  const { limits, tokenizer, reportsCachedTokens: tellsCachedTokens, version, routedExperts, samplingMask } = context;
  return {
    call,
    routedExperts,
    samplingMask,
    model: call.model,
    protocol: limits.protocol,
    tokenizer,
    created: 0,
    cachedTokens: tellsCachedTokens ? cachedTokens : null,
    weightVersion: version.current,
  };
}

async function stream(
  call: VllmCall,
  context: ServeContext,
  { live, writer }: { readonly live: LiveRequest; readonly writer: AnswerWriter },
): Promise<void> {
  const shown = Array.from({ length: call.n }, () => 0);
  const next = (tracker: ChoiceTracker, facts: AnswerFacts, index: number): Json => {
    const from = shown[index]!;
    shown[index] = tracker.ids.length;
    return chunkOf(facts, [choiceOf(tracker, facts, { index, from, isChunk: true })]);
  };
  const early = factsOf(call, context, 0);
  const { trackers, cachedTokens, fault } = await runCompletions(call, context, {
    live,
    onTokens: (tracker, index) => writer.event(JSON.stringify(next(tracker, early, index))),
  });
  const facts = factsOf(call, context, cachedTokens);
  for (const [index, tracker] of trackers.entries()) {
    // Before 0.32, chunks without tokens are not sent, so the finish reason of an aborted request
    // is lost.
    const isEmpty = tracker.ids.length === (call.endpoint === "generate" ? shown[index] : 0);
    const isLost = isEmpty && tracker.finish?.reason === "abort" && !facts.protocol.streamsAbort;
    if (isLost && fault === null) continue;
    const { text, share } = withFault(next(tracker, facts, index), fault);
    writer.event(text, share);
  }
  if (call.includeUsage) writer.event(JSON.stringify(chunkOf(facts, [], usageOf(facts, trackers))));
}

type ChoiceFinish = {
  readonly reason: "stop" | "length" | "abort";
  /** The requested stop token or string; `null` for the model's own end tokens. */
  readonly stopReason: number | string | null;
};

class ChoiceTracker extends SequenceTracker<ChoiceFinish> {
  readonly #call: VllmCall;
  readonly #tokenizer: Tokenizer | null;

  constructor(call: VllmCall, tokenizer: Tokenizer | null) {
    super();
    this.#call = call;
    this.#tokenizer = tokenizer;
  }

  protected override look(): ChoiceFinish | null {
    const { sampler, endTokenIds, stopStrings } = this.#call;
    const { length } = this.ids;
    const last = this.ids[length - 1]!;
    if (length >= sampler.minNewTokens) {
      if (endTokenIds.has(last)) return this.endedBy("stop");
      if (sampler.stopTokenIds.has(last)) return { reason: "stop", stopReason: last };
    }
    // The server searches strings in the text after it has checked the ids: a string in the last
    // permitted token is a stop as well.
    const isWatched = stopStrings.length > 0 && length > sampler.minNewTokens;
    const text = isWatched ? (this.#tokenizer?.decode(this.ids, { skipSpecialTokens: true }) ?? "") : "";
    const found = stopStrings.find((one) => text.includes(one));
    if (found !== undefined) return { reason: "stop", stopReason: found };
    return length >= sampler.maxNewTokens ? this.endedBy("length") : null;
  }

  protected override endedBy(reason: ChoiceFinish["reason"]): ChoiceFinish {
    return { reason, stopReason: null };
  }
}

/**
 * `onTokens` is called after every piece of output, with the index of the completion. Rejects as
 * `runSequence` does.
 */
async function runCompletions(
  call: VllmCall,
  context: ServeContext,
  {
    live,
    onTokens,
  }: { readonly live: LiveRequest; readonly onTokens: (tracker: ChoiceTracker, index: number) => void },
) {
  const { promptIds, sampler: params, requestId, routingKey, adapter } = call;
  const request = { promptIds, params, requestId, routingKey, ...(adapter === null ? {} : { adapter }) };
  const trackers = Array.from({ length: call.n }, () => new ChoiceTracker(call, context.tokenizer));
  const outcomes = await Promise.all(
    trackers.map((tracker, index) =>
      runSequence(request, context, {
        live,
        tracker,
        onTokens: () => onTokens(tracker, index),
      }),
    ),
  );
  const fault = outcomes.find((outcome) => outcome.fault !== null)?.fault ?? null;
  return { trackers, cachedTokens: outcomes[0]?.cachedTokens ?? 0, fault };
}

type AnswerFacts = Pick<ServeContext, "routedExperts" | "samplingMask"> & {
  readonly call: VllmCall;
  readonly model: string;
  readonly protocol: VllmProtocol;
  /** `null` if completions have no text. */
  readonly tokenizer: Tokenizer | null;
  /** Seconds since 1970. */
  readonly created: number;
  /** `null` if the server does not report it. */
  readonly cachedTokens: number | null;
  /** Version of the weights, for a reply without tokens. */
  readonly weightVersion: string;
};

type Json = Readonly<Record<string, unknown>>;

/** `from`: index of the first token to show. `isChunk`: true for a part of a stream. */
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
  // Only the end of a completion has weight versions.
  const spans = tracker.finish === null ? null : tracker.versions(facts.weightVersion);
  if (call.endpoint === "generate") {
    const content = ids.map((id, place) => generateLogprob(id, logprobs[place]!, protocol));
    return {
      index,
      logprobs: call.hasLogprobs ? { content } : null,
      ...finish,
      ...(hasNew ? stop : {}),
      token_ids: ids,
      routed_experts: expertsOf(tracker, facts),
      ...(hasNew ? { sampling_mask: maskOf(tracker, facts, from), weight_versions: spans } : {}),
    };
  }
  const shownTokens = ids.map((id) => (call.tokensAsIds ? `token_id:${id}` : textOf([id], facts, `<${id}>`)));
  const promptIds = call.returnTokenIds && from === 0 ? Array.from(call.promptIds) : null;
  // The offset of a token is the length of the text before it, as it is shown.
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
    ...(hasNew && !isChunk ? { routed_experts: expertsOf(tracker, facts) } : {}),
  };
}

/** Kept ids of the tokens from index `from` on. */
function maskOf(
  tracker: ChoiceTracker,
  { call, samplingMask }: AnswerFacts,
  from: number,
): readonly (readonly number[])[] | null {
  if (samplingMask === null) return null;
  const sequence = [...call.promptIds, ...tracker.ids];
  return tracker.ids.slice(from).map((_, index) => samplingMask(sequence, call.promptIds.length + from + index));
}

/** Experts as base64 of an array in NumPy's format: (tokens without the last, layers, experts), with the end. */
function expertsOf(tracker: ChoiceTracker, { call, routedExperts }: AnswerFacts): string | null {
  if (routedExperts === null || tracker.finish === null) return null;
  const sequence = [...call.promptIds, ...tracker.ids];
  const rows = sequence.slice(call.expertsFrom, -1).map((_, at) => routedExperts(sequence, call.expertsFrom + at));
  const shape = [rows.length, rows[0]?.length ?? 0, rows[0]?.[0]?.length ?? 0];
  const fields = `{'descr': '|u1', 'fortran_order': False, 'shape': (${shape.join(", ")}), }`;
  const header = `${fields.padEnd(117)}\n`;
  const magic = Buffer.from([0x93, ...Buffer.from("NUMPY"), 1, 0, header.length & 0xff, header.length >> 8]);
  return Buffer.concat([magic, Buffer.from(header), Uint8Array.from(rows.flat(2))]).toString("base64");
}

function generateLogprob(id: number, logprob: number, protocol: VllmProtocol): Json {
  // The rank of a sampled token is unknown here, and our clients do not read it.
  const entry: Json =
    protocol.generateTokens === "ids"
      ? { token_id: id, logprob, rank: null }
      : { token: `token_id:${id}`, logprob, bytes: null };
  return { ...entry, top_logprobs: [entry] };
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
  const before = textOf(ids.slice(0, from), facts, "").length;
  const stop = finish?.stopReason ?? null;
  if (typeof stop === "string") {
    const text = textOf(ids, facts, "");
    return text.slice(before, text.indexOf(stop));
  }
  const isStopped = finish?.reason === "stop" && ids.length > 0;
  return textOf(isStopped ? ids.slice(0, -1) : ids, facts, "").slice(before);
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

/** `usage` belongs to the last chunk, which then has no choices; `null` for other chunks. */
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
    // The real server omits the details as well if no token was cached.
    prompt_tokens_details: facts.cachedTokens ? { cached_tokens: facts.cachedTokens } : null,
    ...(facts.protocol.newFields ? { completion_tokens_details: null } : {}),
  };
}
