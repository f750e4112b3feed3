// One POST to either endpoint: a body in, an answer out, whole or as server-sent events. What is wrong with the request is
// said with its status; what goes wrong later, inside an open stream, as a chunk. A client that goes away aborts its call.

import type { Tokenizer } from "../../core/renderer.ts";
import type { AnswerWriter, WholeAnswer } from "../front/answer-writer.ts";
import type { LiveRequest } from "../front/request-table.ts";
import { itemText, WireFaultError } from "../front/wire-fault.ts";
import { choiceOf, chunkOf, usageOf, wholeAnswer, type AnswerFacts } from "./answers.ts";
import { runCompletions, type CompletedRun, type RunContext } from "./completion-run.ts";
import { readCall, type VllmCall, type VllmEndpoint, type VllmLimits } from "./read-call.ts";
import { VllmRefusal } from "./vllm-refusal.ts";

export type ServeOptions = {
  readonly endpoint: VllmEndpoint;
  readonly context: RunContext;
  readonly limits: VllmLimits;
  readonly tokenizer: Tokenizer | null;
  /** Whether usage tells cached tokens (--enable-prompt-tokens-details). */
  readonly tellsCachedTokens: boolean;
  /** Puts a call among those that can be aborted; the returned function takes it out. */
  readonly open: (call: VllmCall) => { readonly live: LiveRequest; readonly end: () => void };
  readonly openWriter: (onLeave: () => void) => AnswerWriter;
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
    if (error instanceof WireFaultError && error.fault.type === "answer") return { ...error.fault, share: 1 };
    throw error;
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
  const send = (data: string): void => writer.write(`data: ${data}\n\n`);
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
      const share = shareOf(done);
      if (share < 1) {
        writer.write(`data: ${text.slice(0, Math.floor(text.length * share))}`);
        writer.breakOff();
        return;
      }
      send(text);
    }
    if (call.includeUsage) send(JSON.stringify(chunkOf(facts, [], usageOf(facts, done.trackers))));
    send("[DONE]");
    writer.end();
  } catch (error) {
    if (error instanceof WireFaultError && error.fault.type === "answer") {
      writer.whole({ ...error.fault, share: 1 });
      return;
    }
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
