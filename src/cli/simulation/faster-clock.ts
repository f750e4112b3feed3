// A clock on which a simulated second takes less than a real one, so that hours of training are sized in minutes. What we
// compute ourselves is not made faster: it shows as lag, the more the faster the clock.

import { type Clock, sleepWith, systemClock } from "../../lib/clock.ts";

/** `factor`: simulated seconds in a real one. */
export function fasterClock(factor: number, clock: Clock = systemClock): Clock {
  const after: Clock["after"] = (ms, action) => clock.after(ms / factor, action);
  return { now: () => clock.now() * factor, after, sleep: sleepWith(after) };
}
