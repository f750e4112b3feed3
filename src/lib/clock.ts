// Time as a parameter: whatever waits takes a clock, so that tests and replays wait for nothing. Not a date library:
// `now` only measures how long something took.

export type Clock = {
  /** Milliseconds since an arbitrary moment; never goes back. */
  now(): number;
  /** Calls `action` once after `ms`, unless what it returns is called before. For deadlines: most never come. */
  after(ms: number, action: () => void): () => void;
  /** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
};

/** The longest delay a timer of the platform can hold; longer ones fire at once. */
const longestTimerMs = 2 ** 31 - 1;

/** A clock's sleep, from its timers. An aborted one leaves no timer behind. */
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

/** The real clock. A pending timer keeps the process alive. */
export const systemClock: Clock = Object.freeze({
  now: () => performance.now(),
  after: startTimer,
  sleep: sleepWith(startTimer),
});
