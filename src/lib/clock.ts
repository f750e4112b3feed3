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

export type ManualClock = Clock & {
  /** Moves time on by `ms`; sleeps that end on the way end in order, and what they wake runs before time moves further. */
  advance(ms: number): Promise<void>;
  /** Moves time on to the end of each sleep, until none is left. */
  drain(): Promise<void>;
  /** Pending sleeps. */
  readonly sleeping: number;
};

type Sleeper = { readonly until: number; readonly wake: () => void };

/** Runs what promises that are settled by now have woken. A macrotask, so that whole chains of promises come to rest. */
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

/** Starts at 0. */
export function createManualClock(): ManualClock {
  let now = 0;
  const sleepers = new Set<Sleeper>();

  const next = (limit: number): Sleeper | null => {
    let first: Sleeper | null = null;
    for (const sleeper of sleepers) {
      if (sleeper.until <= limit && (first === null || sleeper.until < first.until)) first = sleeper;
    }
    return first;
  };

  const wakeUntil = async (limit: number): Promise<void> => {
    await settle();
    for (let sleeper = next(limit); sleeper !== null; sleeper = next(limit)) {
      now = Math.max(now, sleeper.until);
      sleepers.delete(sleeper);
      sleeper.wake();
      await settle();
    }
  };

  const after = (ms: number, wake: () => void): (() => void) => {
    const sleeper: Sleeper = { until: now + Math.max(0, ms), wake };
    sleepers.add(sleeper);
    return () => void sleepers.delete(sleeper);
  };

  return {
    now: () => now,
    after,
    sleep: sleepWith(after),
    advance: async (ms) => {
      const limit = now + ms;
      await wakeUntil(limit);
      now = limit;
    },
    drain: () => wakeUntil(Infinity),
    get sleeping() {
      return sleepers.size;
    },
  };
}
