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
  return new Promise<T>((resolve, reject) => {
    const end = (reason: Error): void => {
      unhook();
      controller.abort(reason);
      reject(reason);
    };
    const onAbort = (): void => end(signal?.reason as Error);
    const cancel = timeoutMs === Infinity ? null : clock.after(timeoutMs, () => end(new DeadlineError(timeoutMs)));
    const unhook = (): void => {
      cancel?.();
      signal?.removeEventListener("abort", onAbort);
    };
    signal?.addEventListener("abort", onAbort, { once: true });
    action(controller.signal).then(resolve, reject).finally(unhook);
  });
}
