// The life of one call: a signal from the caller and a deadline, joined, with everything unhooked when the call ends.
// Not `lib/deadline.ts`, because a streamed call lives on after its promise. Needed at all because the HTTP library looks
// at a signal only once a request has a connection; a queued request would wait on.

import type { Clock } from "../lib/clock.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import { DeadlineQueue } from "./deadline-queue.ts";
import { StopSignal } from "./stop-signal.ts";

/** Why we ended a call ourselves. */
export type CallEnd = "timeout" | "no-first-byte" | "cancelled";

export type CallScopeOptions = {
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | null;
  readonly firstByteTimeoutMs: number | null;
  /** What a call rejects with when it is ended. */
  readonly toError: (end: CallEnd) => Error;
};

/** Opens scopes whose deadlines share timers. */
export class CallScopes {
  readonly #clock: Clock;
  readonly #deadlines = new Map<number, DeadlineQueue>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  open(options: CallScopeOptions): CallScope {
    const { timeoutMs, firstByteTimeoutMs } = options;
    return new CallScope(options, {
      whole: this.#deadlinesOf(timeoutMs),
      firstByte: this.#deadlinesOf(firstByteTimeoutMs),
    });
  }

  #deadlinesOf(timeoutMs: number | null): DeadlineQueue | null {
    if (timeoutMs === null) return null;
    const known = this.#deadlines.get(timeoutMs);
    if (known !== undefined) return known;
    const fresh = new DeadlineQueue(this.#clock, timeoutMs);
    this.#deadlines.set(timeoutMs, fresh);
    return fresh;
  }
}

/** Ends what it runs when the caller cancels or the deadline passes. Call `end` when the call is over, in every case. */
export class CallScope {
  /** Stopped when the call is to stop. */
  readonly signal = new StopSignal();
  readonly #toError: (end: CallEnd) => Error;
  #leaveSignal: (() => void) | null = null;
  #leaveDeadline: (() => void) | null = null;
  #leaveFirstByte: (() => void) | null = null;
  #reject: ((error: Error) => void) | null = null;
  #error: Error | null = null;

  constructor(
    options: CallScopeOptions,
    deadlines: { readonly whole: DeadlineQueue | null; readonly firstByte: DeadlineQueue | null },
  ) {
    const { signal } = options;
    this.#toError = options.toError;
    if (signal?.aborted === true) {
      this.#stop("cancelled");
      return;
    }
    if (signal !== undefined) this.#leaveSignal = subscribeToAbort(signal, () => this.#stop("cancelled"));
    this.#leaveDeadline = deadlines.whole?.add(() => this.#stop("timeout")) ?? null;
    this.#leaveFirstByte = deadlines.firstByte?.add(() => this.#stop("no-first-byte")) ?? null;
  }

  /** What the call was ended with; `null` when it was not. */
  get error(): Error | null {
    return this.#error;
  }

  /** Settles as `work` does, or rejects at once when the scope stops first. `work` is not called in a stopped scope. */
  run<T>(work: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#error !== null) {
        reject(this.#error);
        return;
      }
      this.#reject = reject;
      work().then(resolve, reject);
    });
  }

  /** The head of the answer is here. */
  begun(): void {
    this.#leaveFirstByte?.();
    this.#leaveFirstByte = null;
  }

  /** Unhooks the signal and the deadlines. */
  end(): void {
    this.begun();
    this.#leaveSignal?.();
    this.#leaveDeadline?.();
    this.#leaveSignal = null;
    this.#leaveDeadline = null;
  }

  #stop(end: CallEnd): void {
    if (this.#error !== null) return;
    this.#error = this.#toError(end);
    this.end();
    this.signal.stop(this.#error);
    this.#reject?.(this.#error);
  }
}
