// Time as a parameter: whatever waits takes a clock, so that tests and replays wait for nothing. Not a date library:
// `now` only measures how long something took.

export type Clock = {
  /** Milliseconds since an arbitrary moment; never goes back. */
  now(): number;
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
};

/** The longest delay a timer of the platform can hold; longer ones fire at once. */
const longestTimerMs = 2 ** 31 - 1;

/** The real clock. A pending sleep keeps the process alive; an aborted one leaves no timer behind. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.now(),
  sleep: (ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(
        () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
        Math.min(Math.max(0, ms), longestTimerMs),
      );
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
});
