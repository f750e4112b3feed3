// One sequence from admission to its item: waits while generation is held, lets the sampler run, watches for the end, and
// turns whatever happens (abort, refusal, fault of the wire) into the item or the error of the reference.

import type { Tokenizer } from "../../core/renderer.ts";
import type { Clock } from "../../lib/clock.ts";
import type { SequenceCall } from "./generate-body.ts";
import { abortedFinish, OutputTracker } from "./output-tracker.ts";
import type { SglangProtocol } from "./protocol.ts";
import { Refusal } from "./refusal.ts";
import { replyItem, waitingAbortItem, type Frame, type ReplyFacts } from "./reply-item.ts";
import type { LiveRequest, RequestTable } from "../front/request-table.ts";
import { isSamplerRefusal, type Sampler, type SamplerOutput } from "../front/sampler.ts";
import { WireFaultError, type WireFault } from "../front/wire-fault.ts";

/** What all generations of a front share. */
export type GenerationContext = {
  readonly sampler: Sampler;
  readonly table: RequestTable;
  readonly tokenizer: Tokenizer | null;
  readonly clock: Clock;
  /** The version of the weights, as the front knows it now. */
  readonly version: { current: string };
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
  let fault: Exclude<WireFault, { type: "answer" }> | null = null;
  let output: SamplerOutput | null = null;
  try {
    output = await run(call, context, { request, tracker, onTokens: showFrame });
  } catch (error) {
    if (error instanceof WireFaultError && error.fault.type !== "answer") {
      fault = error.fault;
      output = error.fault.output;
    } else if (!request.isAborted) {
      throw toRefusal(error);
    }
  }
  if (output !== null) takeRest(tracker, output, version.current);
  if (output !== null && output.weightVersion !== null) {
    version.current = output.weightVersion;
    tracker.attributeTo(output.weightVersion);
  }
  if (request.isAborted || output?.finish === "abort") tracker.end(abortedFinish);
  if (output?.finish === "length") tracker.end({ type: "length", length: tracker.ids.length });
  tracker.end({ type: "stop", matched: null });
  // Held answers leave when generation goes on; the version they report is then the one of that moment.
  await table.thaw(request);
  const item = (frame: Frame): unknown => replyItem(facts(output?.cachedTokens ?? 0), frame);
  if (fault?.type === "edit") return { item: (frame) => fault.edit(item(frame)), share: 1 };
  return { item, share: fault?.type === "drop" ? fault.share : 1 };
}

async function run(
  call: SequenceCall,
  context: GenerationContext,
  options: {
    readonly request: LiveRequest;
    readonly tracker: OutputTracker;
    readonly onTokens: () => void;
  },
): Promise<SamplerOutput> {
  const { request, tracker, onTokens } = options;
  if (tracker.finish !== null) {
    return { ids: [], logprobs: [], finish: "end", cachedTokens: 0, weightVersion: null };
  }
  const { promptIds, requestId } = call;
  return context.sampler.sample(
    { promptIds, params: call.sampler, requestId, routingKey: call.routingKey },
    {
      signal: request.signal,
      onTokens: (ids, logprobs) => {
        tracker.push(ids, logprobs, context.version.current);
        if (tracker.finish === null && !request.isAborted) onTokens();
        return tracker.finish === null ? "continue" : "stop";
      },
    },
  );
}

/** The part of the output that was not announced as it came. */
function takeRest(tracker: OutputTracker, output: SamplerOutput, version: string): void {
  const seen = tracker.ids.length;
  tracker.push(Array.from(output.ids).slice(seen), Array.from(output.logprobs).slice(seen), version);
}

function toRefusal(error: unknown): Error {
  if (error instanceof Refusal || error instanceof WireFaultError) return error;
  if (!isSamplerRefusal(error)) return Refusal.crash();
  return error.status === 400 ? Refusal.ofValue(error.message) : Refusal.ofScheduler(error.status, error.message);
}
