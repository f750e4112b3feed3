// Tries an action again after faults that may pass: exponential backoff with jitter, bounded in attempts and in time.
// Knows no errors of any domain: the caller judges each one. Nothing is logged here; `onRetry` tells who wants to know.

import { type Clock, systemClock } from "./clock.ts";

/** A frozen value. Delays double from `baseDelayMs` up to `maxDelayMs`; each is drawn from its upper half. */
export type RetryPolicy = {
  /** At least 1: the first try counts. */
  readonly maxAttempts: number;
  /** No attempt begins later than this after the first; `Infinity` sets no bound. A running attempt is not cut off. */
  readonly maxElapsedMs: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
};

/** One attempt and no more. */
export const noRetry: RetryPolicy = Object.freeze({ maxAttempts: 1, maxElapsedMs: 0, baseDelayMs: 0, maxDelayMs: 0 });

/** What to do about an error. */
export type RetryVerdict = {
  readonly retry: boolean;
  /** What the other side asked us to wait at least; `null` when it did not say. */
  readonly afterMs: number | null;
};

export type RetryOptions = {
  readonly judge: (error: unknown) => RetryVerdict;
  /** Default: the real clock. */
  readonly clock?: Clock;
  /** Uniform in [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
  /** Ends the waiting between attempts with the signal's reason. The action gets no signal from here: it closes over its own. */
  readonly signal?: AbortSignal | undefined;
  /** Called before the wait that follows failed attempt number `attempt` (from 1). */
  readonly onRetry?: (error: unknown, context: { readonly attempt: number; readonly delayMs: number }) => void;
};

/**
 * Resolves as the first attempt that succeeds. Rejects with the error of the last attempt when the judge, the policy or
 * the signal allows no other; a wait that would pass `maxElapsedMs` is not begun. `attempt` counts from 1.
 * Throws a `RangeError` for a policy with a negative or missing number, before the first attempt.
 */
export async function retry<T>(
  action: (attempt: number) => Promise<T>,
  policy: RetryPolicy,
  options: RetryOptions,
): Promise<T> {
  checkRetryPolicy(policy);
  const { judge, clock = systemClock, random = Math.random, signal, onRetry } = options;
  signal?.throwIfAborted();
  const start = clock.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await action(attempt);
    } catch (error) {
      if (attempt >= policy.maxAttempts || signal?.aborted) throw error;
      const verdict = judge(error);
      if (!verdict.retry) throw error;
      const backoffMs = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1)) * (0.5 + random() / 2);
      // What the server asks for is a floor; the backoff on top keeps its clients from coming back all at once.
      const delayMs = (verdict.afterMs ?? 0) + backoffMs;
      if (clock.now() - start + delayMs > policy.maxElapsedMs) throw error;
      onRetry?.(error, { attempt, delayMs });
      await clock.sleep(delayMs, signal);
    }
  }
}

/** Throws a `RangeError` for a policy with a negative or missing number, so that whoever holds one can check it early. */
export function checkRetryPolicy(policy: RetryPolicy): void {
  if (!(policy.maxAttempts >= 1)) {
    throw new RangeError(`Cannot retry: maxAttempts is ${policy.maxAttempts}, at least 1 is needed.`);
  }
  for (const name of ["maxElapsedMs", "baseDelayMs", "maxDelayMs"] as const) {
    if (!(policy[name] >= 0)) throw new RangeError(`Cannot retry: ${name} is ${policy[name]}, at least 0 is needed.`);
  }
}
