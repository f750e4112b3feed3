// Time as a parameter: all code that waits takes a clock, so that tests and replays do not wait. It
// is not a date library: `now` only measures durations.

export type Clock = {
  /** Milliseconds since an arbitrary moment; never decreases. */
  now(): number;
  /**
   * Calls `action` once after `ms`, unless the returned function is called first. Meant for
   * deadlines, most of which are never reached.
   */
  after(ms: number, action: () => void): () => void;
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
};

/** Maximum delay of a platform timer; longer ones would fire at once. */
const longestTimerMs = 2 ** 31 - 1;

/** The `sleep` of a clock, built from its timers. An aborted sleep leaves no pending timer. */
export function sleepWith(after: Clock["after"]): Clock["sleep"] {
  return (ms, signal) =>
    new Promise<void>((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const onAbort = (): void => {
        cancel();
        reject(signal?.reason as Error);
      };
      const cancel = after(ms, () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
}

function startTimer(ms: number, action: () => void): () => void {
  const timer = setTimeout(action, Math.min(Math.max(0, ms), longestTimerMs));
  return () => clearTimeout(timer);
}

/** The system clock. A pending timer keeps the process alive. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.now(),
  after: startTimer,
  sleep: sleepWith(startTimer),
});
