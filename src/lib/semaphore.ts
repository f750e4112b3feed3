// Bounds how many run at once; the others wait in the order they came. Not a rate limit (see `rate-limit.ts`) and not
// shared between processes.

export type Semaphore = {
  readonly limit: number;
  /** Permits handed out. */
  readonly running: number;
  /** How many wait for one. */
  readonly waiting: number;
  /** Resolves with the function that gives the permit back (calling it twice is harmless); rejects with the signal's reason, holding nothing. */
  acquire(signal?: AbortSignal): Promise<() => void>;
  /** Runs the action with a permit and gives it back however the action ends. */
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
        // The permit passes on without becoming free, so that nobody who comes now overtakes.
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
