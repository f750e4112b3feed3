// Limits on concurrent actions (semaphore), on actions started per minute (rate limit), and on
// attempts (retry). They are not shared between processes, and do not depend on domain errors. Also
// range checks of numeric options, with uniform messages.

import { type Clock, systemClock } from "./clock.ts";

export type Semaphore = {
  readonly limit: number;
  /** Number of acquired permits. */
  readonly running: number;
  /** Number of callers that wait for a permit. */
  readonly waiting: number;
  /**
   * Resolves with the function that releases the permit (calling it twice is harmless); rejects
   * with the signal's reason, without a permit.
   */
  acquire(signal?: AbortSignal): Promise<() => void>;
  /** Runs the action with a permit and releases it when the action ends in any way. */
  run<T>(action: () => Promise<T>, signal?: AbortSignal): Promise<T>;
};

/**
 * Creates a semaphore; first come, first served. `limit` is at least 1, or `Infinity`; anything
 * else throws a `RangeError`.
 */
export function createSemaphore(limit: number): Semaphore {
  if (!(limit >= 1) || (limit !== Infinity && !Number.isInteger(limit))) {
    throw new RangeError(`Cannot create a semaphore: limit is ${limit}, expected a whole number of at least 1.`);
  }
  let running = 0;
  // A set keeps the order of arrival and removes an aborted waiter at once.
  const queue = new Set<() => void>();

  const permit = (): (() => void) => {
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      const next = queue.values().next();
      if (next.done === true) running--;
      else {
        // The permit is handed over without becoming free, so that no later caller overtakes.
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
  /**
   * Resolves when the caller may begin, in the order of the calls; the slot of a cancelled caller
   * is not reused.
   */
  wait(signal?: AbortSignal): Promise<void>;
};

/**
 * Limits the number of actions started per minute by spacing them evenly: without bursts, no
 * server-side window is exceeded. `perMinute` is positive; `Infinity` never waits. Anything else
 * throws a `RangeError`. A function is called at every action, because the share of a process
 * changes with the number of other processes.
 */
export function createRateLimit(perMinute: number | (() => number), clock: Clock = systemClock): RateLimit {
  const current = typeof perMinute === "number" ? () => perMinute : perMinute;
  if (!(current() > 0)) {
    throw new RangeError(`Cannot limit a rate: perMinute is ${current()}, expected a positive number.`);
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

/**
 * Immutable settings. Delays double from `baseDelayMs` up to `maxDelayMs`; each is drawn from the
 * upper half of its range.
 */
export type RetryPolicy = {
  /** Maximum number of attempts, including the first; at least 1. */
  readonly maxAttempts: number;
  /**
   * No attempt begins later than this after the first; `Infinity` sets no limit. A running attempt
   * is not cancelled.
   */
  readonly maxElapsedMs: number;
  readonly baseDelayMs: number;
  readonly maxDelayMs: number;
};

/** Policy with a single attempt. */
export const noRetry: RetryPolicy = Object.freeze({ maxAttempts: 1, maxElapsedMs: 0, baseDelayMs: 0, maxDelayMs: 0 });

/** The decision about an error. */
type RetryVerdict = {
  readonly retry: boolean;
  /** Minimum wait that the server requested; `null` if it requested none. */
  readonly afterMs: number | null;
};

type RetryOptions = {
  readonly classify: (error: unknown) => RetryVerdict;
  /** Default: the system clock. */
  readonly clock?: Clock;
  /** Uniform in [0, 1). Default: `Math.random`. */
  readonly random?: () => number;
  /**
   * Ends the wait between attempts with the signal's reason. It is not passed to the action, which
   * must capture its own.
   */
  readonly signal?: AbortSignal | undefined;
  /** Called before the wait after failed attempt number `attempt` (from 1). */
  readonly onRetry?: (error: unknown, context: { readonly attempt: number; readonly delayMs: number }) => void;
};

/**
 * Resolves with the first successful attempt. Rejects with the error of the last attempt if
 * `classify`, the policy or the signal allows no other; a wait that would exceed `maxElapsedMs` is
 * not started. `attempt` counts from 1. Throws a `RangeError` for a policy with a negative or
 * missing number, before the first attempt.
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
      // The wait requested by the server is a minimum; the added backoff keeps its clients from
      // returning all at once.
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
    throw new RangeError(`Cannot retry: maxAttempts is ${policy.maxAttempts}, expected at least 1.`);
  }
  for (const name of ["maxElapsedMs", "baseDelayMs", "maxDelayMs"] as const) {
    if (!(policy[name] >= 0)) throw new RangeError(`Cannot retry: ${name} is ${policy[name]}, expected at least 0.`);
  }
}

/** Throws a `RangeError` unless the value is a whole number of at least `least`. */
export function requireWhole(task: string, name: string, value: number, least = 1): void {
  if (Number.isInteger(value) && value >= least) return;
  throw new RangeError(`Cannot ${task}: ${name} is ${value}, expected a whole number of at least ${least}.`);
}

/** Like {@link requireWhole}; `Infinity` passes too. */
export function requireWholeOrInfinite(task: string, name: string, value: number, least = 1): void {
  if (value !== Infinity) requireWhole(task, name, value, least);
}
