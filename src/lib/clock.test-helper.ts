// A clock for tests: time stands still until it is moved, so that nothing waits.

import { type Clock, sleepWith } from "./clock.ts";

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
