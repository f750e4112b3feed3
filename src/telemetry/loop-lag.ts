// How late the event loop comes to what is due: the sign that one episode blocks another. Measured by the platform itself.

import { monitorEventLoopDelay } from "node:perf_hooks";

/** Milliseconds over the normal pace since the last reading. */
export type LoopLag = { readonly p50: number; readonly p99: number; readonly max: number };

/** Sampling interval: a lag shorter than this is not seen. */
const resolutionMs = 10;

/** Measures from now on; `read` returns the lag since the last `read`. Keeps no process alive. */
export function measureLoopLag(): { read(): LoopLag; stop(): void } {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs });
  histogram.enable();
  const overPace = (nanoseconds: number): number =>
    Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / 1e6 - resolutionMs) : 0;
  return {
    read() {
      const lag = {
        p50: overPace(histogram.percentile(50)),
        p99: overPace(histogram.percentile(99)),
        max: overPace(histogram.max),
      };
      histogram.reset();
      return lag;
    },
    stop: () => void histogram.disable(),
  };
}
