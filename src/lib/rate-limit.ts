// Bounds how many actions begin per minute by spacing them evenly: no bursts, so that no server-side window is ever
// overrun. Not a bound on how many run at once (see `semaphore.ts`) and not shared between processes.

import { type Clock, systemClock } from "./clock.ts";

export type RateLimit = {
  /** Resolves when the caller may begin, in the order of the calls; a cancelled caller's place is not given to another. */
  wait(signal?: AbortSignal): Promise<void>;
};

/** `perMinute` is positive; `Infinity` never waits. Anything else throws a `RangeError`. */
export function createRateLimit(perMinute: number, clock: Clock = systemClock): RateLimit {
  if (!(perMinute > 0)) {
    throw new RangeError(`Cannot limit a rate: perMinute is ${perMinute}, a positive number is needed.`);
  }
  const spacingMs = 60_000 / perMinute;
  let free = -Infinity;
  return {
    wait: async (signal) => {
      signal?.throwIfAborted();
      const now = clock.now();
      const start = Math.max(now, free);
      free = start + spacingMs;
      if (start > now) await clock.sleep(start - now, signal);
    },
  };
}
