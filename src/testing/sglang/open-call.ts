// A /generate call from the moment its sequences are in the table of live requests until they leave it.

import type { GenerateCall, ModelLimits } from "./generate-body.ts";
import type { GenerationContext } from "./generation.ts";
import { Refusal } from "./refusal.ts";
import type { LiveRequest } from "../front/request-table.ts";

export type GenerateRouteOptions = {
  readonly context: GenerationContext;
  readonly limits: ModelLimits;
  /** What a frame of a stream holds: all so far, or what is new. */
  readonly streamOutput: "cumulative" | "delta";
};

/** A call whose sequences are in the table of live requests, aligned with `call.sequences`. */
export type OpenCall = {
  readonly call: GenerateCall;
  readonly live: readonly LiveRequest[];
  /** Aborts what still runs. */
  readonly abort: () => void;
  /** Takes the sequences out of the table; what still runs is aborted. */
  readonly end: () => void;
};

/** Throws a `Refusal` when an id is live already. A client that goes away aborts the call. */
export function openCall(
  call: GenerateCall,
  input: { readonly request: Request; readonly options: GenerateRouteOptions },
): OpenCall {
  const { signal } = input.request;
  const { table } = input.options.context;
  const live: LiveRequest[] = [];
  const abort = (): void => live.forEach((entry) => entry.abort());
  const end = (): void => {
    signal.removeEventListener("abort", abort);
    abort();
    for (const entry of live) table.close(entry);
  };
  try {
    for (const { requestId } of call.sequences) {
      if (table.isLive(requestId)) throw Refusal.ofValue(`Duplicate request ID detected: ${requestId}`);
      live.push(table.open(requestId));
    }
  } catch (error) {
    end();
    throw error;
  }
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  return { call, live, abort, end };
}
