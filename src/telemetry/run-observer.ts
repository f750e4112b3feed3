// Who watches a run: told of what happened after it counts, and never asked for anything. The one contract behind metrics,
// traces, event files and log lines. Not a journal: an observer may miss or forget, and its faults never reach an episode.

import type { EpisodeEvent, GroupRecord } from "../core/index.ts";

/** What a run has at a moment, for gauges. */
export type RunGauges = {
  readonly runningEpisodes: number;
  /** Planned and not started; `null` when the plan has no end. */
  readonly waitingEpisodes: number | null;
  /** What may run at once at this moment. */
  readonly concurrencyLimit: number;
};

/** A server is left alone because it failed ("open"), is tried again ("half-open"), or is back ("closed"). */
export type CircuitChange = {
  /** Safe to show. */
  readonly server: string;
  readonly state: "open" | "half-open" | "closed";
  /** In a row. */
  readonly failures: number;
};

/**
 * Watches a run. Calls are synchronous and must be quick; what is slow (files, sockets) happens behind them.
 *
 * Guarantees: no call throws; `close` resolves when everything seen is out. Not promised: that events of different episodes
 * come in any order.
 */
export interface RunObserver {
  event(episodeId: string, event: EpisodeEvent): void;
  /** What an earlier process recorded of an episode that is kept or goes on. It took none of this run's time. */
  recorded(episodeId: string, event: EpisodeEvent): void;
  group(group: GroupRecord): void;
  gauges(gauges: RunGauges): void;
  /** Versions between the trainer's weights and the oldest of a group, or of an episode, that is handed over. */
  staleness(versions: number): void;
  circuit(change: CircuitChange): void;
  close(): Promise<void>;
}

/** One observer of several; `null` for none, so that a run without observers pays for none. */
export function observeWithAll(observers: readonly RunObserver[]): RunObserver | null {
  const [only] = observers;
  if (only === undefined) return null;
  if (observers.length === 1) return only;
  return {
    event(episodeId, event) {
      for (const observer of observers) observer.event(episodeId, event);
    },
    recorded(episodeId, event) {
      for (const observer of observers) observer.recorded(episodeId, event);
    },
    group(group) {
      for (const observer of observers) observer.group(group);
    },
    gauges(gauges) {
      for (const observer of observers) observer.gauges(gauges);
    },
    staleness(versions) {
      for (const observer of observers) observer.staleness(versions);
    },
    circuit(change) {
      for (const observer of observers) observer.circuit(change);
    },
    async close() {
      await Promise.all(observers.map((observer) => observer.close()));
    },
  };
}
