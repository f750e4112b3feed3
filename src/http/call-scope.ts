// The life of one call: a signal from the caller and a deadline, joined, with everything unhooked when the call ends.
// Not `lib/deadline.ts`, because a streamed call lives on after its promise. Needed at all because the HTTP library looks
// at a signal only once a request has a connection; a queued request would wait on.

import { setMaxListeners } from "node:events";
import type { Clock } from "../lib/clock.ts";

/** Why we ended a call ourselves. */
export type CallEnd = "timeout" | "cancelled";

export type CallScopeOptions = {
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | null;
  readonly clock: Clock;
  /** What a call rejects with when it is ended. */
  readonly toError: (end: CallEnd) => Error;
};

/** Ends what it runs when the caller cancels or the deadline passes. Call `end` when the call is over, in every case. */
export class CallScope {
  readonly #options: CallScopeOptions;
  readonly #controller = new AbortController();
  readonly #timer: AbortController | null = null;
  readonly #onAbort = (): void => this.#stop("cancelled");
  #reject: ((error: Error) => void) | null = null;
  #error: Error | null = null;

  constructor(options: CallScopeOptions) {
    this.#options = options;
    const { signal, timeoutMs, clock } = options;
    if (signal?.aborted === true) {
      this.#stop("cancelled");
      return;
    }
    if (signal !== undefined) {
      // One signal ends thousands of calls of a run; Node would take eleven for a leak.
      setMaxListeners(0, signal);
      signal.addEventListener("abort", this.#onAbort, { once: true });
    }
    if (timeoutMs === null) return;
    this.#timer = new AbortController();
    clock.sleep(timeoutMs, this.#timer.signal).then(
      () => this.#stop("timeout"),
      () => undefined,
    );
  }

  /** What the call was ended with; `null` when it was not. */
  get error(): Error | null {
    return this.#error;
  }

  /** Settles as `work` does, or rejects at once when the scope stops first. `work` is not called in a stopped scope. */
  run<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#error !== null) {
        reject(this.#error);
        return;
      }
      this.#reject = reject;
      work(this.#controller.signal).then(resolve, reject);
    });
  }

  /** Unhooks the signal and the deadline. */
  end(): void {
    this.#timer?.abort();
    this.#options.signal?.removeEventListener("abort", this.#onAbort);
  }

  #stop(end: CallEnd): void {
    if (this.#error !== null) return;
    this.#error = this.#options.toError(end);
    this.end();
    this.#controller.abort(this.#error);
    this.#reject?.(this.#error);
  }
}
