// How many actions run at once (semaphore), how many begin per minute (rate limit), how often one is tried (retry). None is
// shared between processes, and none knows an error of any domain.

import { type Clock, systemClock } from "./clock.ts";

export type Semaphore = {
  readonly limit: number;
  /** Acquired permits. */
  readonly running: number;
  /** Callers that wait for one. */
  readonly waiting: number;
  /** Resolves with the function that releases the permit (calling it twice is harmless); rejects with the signal's reason, holding nothing. */
  acquire(signal?: AbortSignal): Promise<() => void>;
  /** Runs the action with a permit and releases it however the action ends. */
  run<T>(action: () => Promise<T>, signal?: AbortSignal): Promise<T>;
};

/** First come, first served. `limit` is at least 1, or `Infinity`; anything else throws a `RangeError`. */
export function createSemaphore(limit: number): Semaphore {
  if (!(limit >= 1) || (limit !== Infinity && !Number.isInteger(limit))) {
    throw new RangeError(`Cannot make a semaphore: limit is ${limit}, a whole number of at least 1 is needed.`);
  }
  let running = 0;
  // A set keeps the order of arrival and forgets an aborted waiter at once.
  const queue = new Set<() => void>();

  const permit = (): (() => void) => {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = queue.values().next();
      if (next.done === true) running--;
      else {
        // The permit passes on without becoming free, so that no later caller overtakes.
        queue.delete(next.value);
        next.value();
      }
    };
  };

  const acquire = (signal?: AbortSignal): Promise<() => void> =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      if (running < limit) {
        running++;
        return resolve(permit());
      }
      const onAbort = (): void => {
        queue.delete(admit);
        reject(signal?.reason as Error);
      };
      const admit = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve(permit());
      };
      queue.add(admit);
      signal?.addEventListener("abort", onAbort, { once: true });
    });

  return {
    limit,
    get running() {
      return running;
    },
    get waiting() {
      return queue.size;
    },
    acquire,
    run: async (action, signal) => {
      const release = await acquire(signal);
      try {
        return await action();
      } finally {
        release();
      }
    },
  };
}

type RateLimit = {
  /** Resolves when the caller may begin, in the order of the calls; a cancelled caller's place is not given to another. */
  wait(signal?: AbortSignal): Promise<void>;
};

/** Bounds how many actions begin per minute by spacing them evenly: no bursts, so that no server-side window is overrun.
 * `perMinute` is positive; `Infinity` never waits. Anything else throws a `RangeError`. A function is called at every action: the
 * share of a process changes with the number of others.
 */
export function createRateLimit(perMinute: number | (() => number), clock: Clock = systemClock): RateLimit {
  const current = typeof perMinute === "number" ? () => perMinute : perMinute;
  if (!(current() > 0)) {
    throw new RangeError(`Cannot limit a rate: perMinute is ${current()}, a positive number is needed.`);
  }
  let free = -Infinity;
  return {
    wait: async (signal) => {
      signal?.throwIfAborted();
      const now = clock.now();
      const start = Math.max(now, free);
      free = start + 60_000 / current();
      if (start > now) await clock.sleep(start - now, signal);
    },
  };
}

/** A frozen value. Delays double from `baseDelayMs` up to `maxDelayMs`; each is drawn from its upper half. */
export type RetryPolicy = {
  /** At least 1: the first try counts. */
  readonly maxAttempts: number;
  /** No attempt begins later than this after the first; `Infinity` sets no bound. A running attempt is not cancelled. */
  readonly maxElapsedMs: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
};

/** One attempt and no more. */
export const noRetry: RetryPolicy = Object.freeze({ maxAttempts: 1, maxElapsedMs: 0, baseDelayMs: 0, maxDelayMs: 0 });

/** What to do about an error. */
type RetryVerdict = {
  readonly retry: boolean;
  /** Least wait that the server requested; `null` when it requested none. */
  readonly afterMs: number | null;
};

type RetryOptions = {
  readonly classify: (error: unknown) => RetryVerdict;
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
 * Resolves as the first attempt that succeeds. Rejects with the error of the last attempt when `classify`, the policy or
 * the signal allows no other; a wait that would pass `maxElapsedMs` is not begun. `attempt` counts from 1.
 * Throws a `RangeError` for a policy with a negative or missing number, before the first attempt.
 */
export async function retry<T>(
  action: (attempt: number) => Promise<T>,
  policy: RetryPolicy,
  options: RetryOptions,
): Promise<T> {
  checkRetryPolicy(policy);
  const { classify, clock = systemClock, random = Math.random, signal, onRetry } = options;
  signal?.throwIfAborted();
  const start = clock.now();
  for (let attempt = 1; ; attempt++) {
    try {
      return await action(attempt);
    } catch (error) {
      if (attempt >= policy.maxAttempts || signal?.aborted) throw error;
      const verdict = classify(error);
      if (!verdict.retry) throw error;
      const backoffMs = Math.min(policy.maxDelayMs, policy.baseDelayMs * 2 ** (attempt - 1)) * (0.5 + random() / 2);
      // What the server requests is a floor; the backoff on top keeps its clients from coming back all at once.
      const delayMs = (verdict.afterMs ?? 0) + backoffMs;
      if (clock.now() - start + delayMs > policy.maxElapsedMs) throw error;
      onRetry?.(error, { attempt, delayMs });
      await clock.sleep(delayMs, signal);
    }
  }
}

/** Throws a `RangeError` for a policy with a negative or missing number, so that it can be checked early. */
export function checkRetryPolicy(policy: RetryPolicy): void {
  if (!(policy.maxAttempts >= 1)) {
    throw new RangeError(`Cannot retry: maxAttempts is ${policy.maxAttempts}, at least 1 is needed.`);
  }
  for (const name of ["maxElapsedMs", "baseDelayMs", "maxDelayMs"] as const) {
    if (!(policy[name] >= 0)) throw new RangeError(`Cannot retry: ${name} is ${policy[name]}, at least 0 is needed.`);
  }
}
