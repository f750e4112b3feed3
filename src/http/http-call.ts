// The lifetime of one call: a signal from the caller and two deadlines, joined, with all listeners
// removed when the call ends. It does not use `lib/deadline.ts`, because a streamed call outlives
// its promise. It is necessary because undici checks a signal only once a request has a connection;
// a queued request would continue to wait.

import type { AttributedError, Boundary } from "../core/failure.ts";
import { subscribeToAbort } from "../lib/deadline.ts";
import type { Clock } from "../lib/clock.ts";
import type { HttpCallOptions, HttpRequest } from "./http-client.ts";
import { endedCall, httpFailure } from "./http-failure.ts";

/**
 * Ends its work when the caller cancels or a deadline passes. Call `end` when the call is done, in
 * every case. It also serves as the signal for undici, which uses only three members of one: a real
 * signal costs as much as parsing a small answer.
 */
export class HttpCall {
  aborted = false;
  /** The reason why the call was ended early; undefined otherwise. */
  reason: AttributedError | undefined = undefined;
  readonly #request: HttpRequest;
  readonly #boundary: Boundary;
  readonly #listeners = new Set<() => void>();
  readonly #hooks: (() => void)[] = [];
  #cancelFirstByte: (() => void) | null = null;
  #reject: ((error: Error) => void) | null = null;

  constructor(
    request: HttpRequest,
    options: HttpCallOptions,
    { boundary, clock }: { readonly boundary: Boundary; readonly clock: Clock },
  ) {
    this.#request = request;
    this.#boundary = boundary;
    const { signal, timeoutMs = null, firstByteTimeoutMs = null } = options;
    const stop = (code: "cancelled" | "timeout", state: string): void =>
      this.#stop(endedCall(request, boundary, { code, state }));
    const cancel = (): void => stop("cancelled", "the caller cancelled it");
    if (signal?.aborted === true) {
      cancel();
      return;
    }
    if (signal !== undefined) this.#hooks.push(subscribeToAbort(signal, cancel));
    if (timeoutMs !== null) {
      const end = (): void => stop("timeout", `no complete answer came within ${timeoutMs} ms`);
      this.#hooks.push(clock.after(timeoutMs, end));
    }
    if (firstByteTimeoutMs !== null) {
      const end = (): void => stop("timeout", `no answer began within ${firstByteTimeoutMs} ms`);
      this.#cancelFirstByte = clock.after(firstByteTimeoutMs, end);
    }
  }

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  /**
   * Settles like `work`, or rejects at once if the call is ended first. `work` does not begin if
   * the call has ended.
   */
  run<T>(work: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.reason !== undefined) {
        reject(this.reason);
        return;
      }
      this.#reject = reject;
      work().then(resolve, reject);
    });
  }

  /** Reports that the head of the answer has arrived. */
  begun(): void {
    this.#cancelFirstByte?.();
    this.#cancelFirstByte = null;
  }

  /** Removes the listeners and the deadlines. */
  end(): void {
    this.begun();
    for (const unhook of this.#hooks.splice(0)) unhook();
  }

  /** Ends the call and returns its rejection for the thrown error. */
  fail(error: unknown): AttributedError {
    this.end();
    return this.reason ?? httpFailure(error, this.#request, this.#boundary);
  }

  /** The failure for an answer with more bytes than the limit. */
  tooLarge(maxBytes: number): AttributedError {
    const state = `the answer is larger than ${maxBytes} bytes`;
    return endedCall(this.#request, this.#boundary, { code: "bad-reply", state });
  }

  /**
   * The failure for a compressed answer that cannot be decompressed; `state` completes "the answer
   * ...".
   */
  notUnpacked(state: string): AttributedError {
    return endedCall(this.#request, this.#boundary, { code: "bad-reply", state: `the answer ${state}` });
  }

  #stop(error: AttributedError): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = error;
    this.end();
    for (const listener of this.#listeners) listener();
    this.#reject?.(error);
  }
}
