// Bounds how long an action may take. The action gets a signal that aborts in time; if it ignores the signal, the caller
// goes on all the same. Composes signals by hand: `AbortSignal.any` keeps memory on long-lived signals in Node 20.

import { subscribeToAbort } from "./abort-subscription.ts";
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
 * Runs actions one after another, each with a deadline, on one signal for as long as none is ended: making a signal for
 * every action costs more than a small action. Never two actions at once.
 */
export class DeadlineRunner {
  readonly #clock: Clock;
  readonly #signal: AbortSignal | undefined;
  #controller = new AbortController();

  constructor(options: { readonly clock?: Clock; readonly signal?: AbortSignal | undefined } = {}) {
    this.#clock = options.clock ?? systemClock;
    this.#signal = options.signal;
  }

  /**
   * Resolves or rejects as the action does, or rejects with a `DeadlineError` after `timeoutMs` (`Infinity`: never), or with
   * the reason of the signal. What the action does afterwards is ignored.
   */
  async run<T>(action: (signal: AbortSignal) => Promise<T>, timeoutMs: number): Promise<T> {
    const signal = this.#signal;
    signal?.throwIfAborted();
    if (this.#controller.signal.aborted) this.#controller = new AbortController();
    const controller = this.#controller;
    let cancel: (() => void) | null = null;
    let leave: (() => void) | null = null;
    try {
      return await new Promise<T>((resolve, reject) => {
        const end = (reason: Error): void => {
          controller.abort(reason);
          reject(reason);
        };
        if (timeoutMs !== Infinity) cancel = this.#clock.after(timeoutMs, () => end(new DeadlineError(timeoutMs)));
        if (signal !== undefined) leave = subscribeToAbort(signal, () => end(signal.reason as Error));
        action(controller.signal).then(resolve, reject);
      });
    } finally {
      (cancel as (() => void) | null)?.();
      (leave as (() => void) | null)?.();
    }
  }
}

/** One action with a deadline. As {@link DeadlineRunner.run}. */
export function withDeadline<T>(
  action: (signal: AbortSignal) => Promise<T>,
  options: { readonly timeoutMs: number; readonly clock?: Clock; readonly signal?: AbortSignal | undefined },
): Promise<T> {
  return new DeadlineRunner(options).run(action, options.timeoutMs);
}
