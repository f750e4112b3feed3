// The ending of an episode: a value that the steps of the loop return. Faults are thrown until the
// loop catches them, once, and turns them into endings.

import { attribute, type Failure, type StopReason } from "../../core/failure.ts";

export type Ending = {
  readonly type: "ending";
  readonly stopReason: StopReason;
  /** The failure of an ending by a fault; `null` otherwise. */
  readonly failure: Failure | null;
};

export function stop(stopReason: StopReason): Ending {
  return { type: "ending", stopReason, failure: null };
}

/** The ending for a thrown error: a cancelled episode, a full context, or a fault. */
export function endingOf(error: unknown, signal: AbortSignal | null): Ending {
  if (signal?.aborted) return stop("cancelled");
  const { failure } = attribute(error, "environment");
  if (failure.boundary === "engine" && failure.code === "context-length") return stop("context_length");
  return { type: "ending", stopReason: "fault", failure };
}

export function isEnding(value: { readonly type: string } | null): value is Ending {
  return value?.type === "ending";
}
