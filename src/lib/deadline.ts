// Bounds how long an action may take. The action gets a signal that aborts in time; if it ignores the signal, the caller
// goes on all the same. Composes signals by hand: `AbortSignal.any` keeps memory on long-lived signals in Node 20.

import { type Clock, systemClock } from "./clock.ts";

/** Time was up. */
export class DeadlineError extends Error {
  readonly timeoutMs: number;

  constructor(timeoutMs: number) {
    super(`Time is up: ${timeoutMs} ms have passed.`);
    this.name = "DeadlineError";
    this.timeoutMs = timeoutMs;
  }
}

/**
 * Resolves or rejects as the action does, or rejects with a `DeadlineError` after `timeoutMs` (`Infinity`: never), or with
 * the reason of `signal`. What the action does afterwards is ignored.
 */
export async function withDeadline<T>(
  action: (signal: AbortSignal) => Promise<T>,
  options: { readonly timeoutMs: number; readonly clock?: Clock; readonly signal?: AbortSignal | undefined },
): Promise<T> {
  const { timeoutMs, clock = systemClock, signal } = options;
  signal?.throwIfAborted();
  const controller = new AbortController();
  const timer = new AbortController();
  const onAbort = (): void => controller.abort(signal?.reason);
  signal?.addEventListener("abort", onAbort, { once: true });
  if (timeoutMs !== Infinity) {
    clock.sleep(timeoutMs, timer.signal).then(
      () => controller.abort(new DeadlineError(timeoutMs)),
      () => {},
    );
  }
  const aborted = new Promise<never>((_, reject) => {
    controller.signal.addEventListener("abort", () => reject(controller.signal.reason as Error), { once: true });
  });
  try {
    return await Promise.race([action(controller.signal), aborted]);
  } finally {
    timer.abort();
    signal?.removeEventListener("abort", onAbort);
  }
}
