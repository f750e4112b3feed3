// One call from admission to its end: waits while generation is held, lets the sampler run once for each completion, watches
// for the end of each. Knows nothing of HTTP.

import type { LiveRequest, RequestTable } from "../front/request-table.ts";
import { isSamplerRefusal, type Sampler, type SamplerOutput } from "../front/sampler.ts";
import { WireFaultError, type WireFault } from "../front/wire-fault.ts";
import { ChoiceTracker } from "./choice-tracker.ts";
import type { VllmCall } from "./read-call.ts";
import { VllmRefusal } from "./vllm-refusal.ts";

export type RunContext = {
  readonly sampler: Sampler;
  readonly table: RequestTable;
  /** The version of the weights, as the server knows it now. */
  readonly version: { current: string };
};

export type CompletedRun = {
  /** One for each completion. */
  readonly trackers: readonly ChoiceTracker[];
  readonly cachedTokens: number;
  /** What is to go wrong on the wire; `null`: nothing. */
  readonly fault: Exclude<WireFault, { type: "answer" }> | null;
};

/**
 * `onTokens` is called after every piece of output, with the completion's place. Rejects with a `VllmRefusal`, or with the
 * `WireFaultError` of another answer.
 */
export async function runCompletions(
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
    const outcomes = await Promise.all(
      trackers.map((tracker, index) => run(call, context, { live, tracker, onTokens: () => onTokens(tracker, index) })),
    );
    cachedTokens = outcomes[0]?.output?.cachedTokens ?? 0;
    fault = outcomes.find((outcome) => outcome.fault !== null)?.fault ?? null;
  }
  for (const tracker of trackers) tracker.end(live.isAborted ? "abort" : "stop");
  await table.thaw(live);
  return { trackers, cachedTokens, fault };
}

async function run(
  call: VllmCall,
  context: RunContext,
  options: { readonly live: LiveRequest; readonly tracker: ChoiceTracker; readonly onTokens: () => void },
): Promise<{ readonly output: SamplerOutput | null; readonly fault: CompletedRun["fault"] }> {
  const { live, tracker, onTokens } = options;
  let fault: CompletedRun["fault"] = null;
  let output: SamplerOutput | null = null;
  try {
    output = await context.sampler.sample(
      { promptIds: call.promptIds, params: call.sampler, requestId: call.requestId, routingKey: call.routingKey },
      {
        signal: live.signal,
        onTokens: (ids, logprobs) => {
          tracker.push(ids, logprobs, context.version.current);
          if (tracker.finish === null && !live.isAborted) onTokens();
          return tracker.finish === null ? "continue" : "stop";
        },
      },
    );
  } catch (error) {
    if (error instanceof WireFaultError && error.fault.type !== "answer") {
      fault = error.fault;
      output = error.fault.output;
    } else if (!live.isAborted) {
      throw toRefusal(error);
    }
  }
  if (output === null) return { output, fault };
  const seen = tracker.ids.length;
  tracker.push(Array.from(output.ids).slice(seen), Array.from(output.logprobs).slice(seen), context.version.current);
  if (output.weightVersion !== null) {
    context.version.current = output.weightVersion;
    tracker.attributeTo(output.weightVersion);
  }
  if (output.finish !== "end") tracker.end(output.finish);
  return { output, fault };
}

function toRefusal(error: unknown): Error {
  if (error instanceof WireFaultError) return error;
  if (isSamplerRefusal(error)) return new VllmRefusal(error.status, error.message);
  return new VllmRefusal(500, "Internal server error");
}
