// A clock for tests: its time changes only on demand, so that tests never wait.

import { type Clock, sleepWith } from "./clock.ts";

export type ManualClock = Clock & {
  /**
   * Advances the time by `ms`; sleeps that end in between end in order, and the code they resume
   * runs before time advances further.
   */
  advance(ms: number): Promise<void>;
  /** Advances the time to the end of each sleep, until none is left. */
  drain(): Promise<void>;
  /** Number of pending sleeps. */
  readonly sleeping: number;
};

type Sleeper = { readonly until: number; readonly wake: () => void };

/**
 * Runs all code that waits for settled promises, or for the event loop to turn once. It uses
 * macrotasks, so that whole chains of promises finish.
 */
const settle = (): Promise<void> => new Promise((resolve) => setTimeout(() => setImmediate(resolve), 0));

/** Creates a clock that starts at 0. */
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
