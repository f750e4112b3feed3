// Observers of a run: they see what happened after it counts and return nothing. The one contract behind metrics, traces, event
// files and log lines, and the one table of what they read of an event. Not a journal: an observer may miss or forget, and its
// faults never reach an episode.

import type { Attempt, EpisodeEvent, GroupRecord } from "../core/index.ts";

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
  /** What an earlier process recorded of an episode that has ended or resumes. It took none of this run's time. */
  recorded(episodeId: string, event: EpisodeEvent): void;
  group(group: GroupRecord): void;
  gauges(gauges: RunGauges): void;
  /** Versions between the trainer's weights and the oldest of a group, or of an episode, that is handed over. */
  staleness(versions: number): void;
  circuit(change: CircuitChange): void;
  close(): Promise<void>;
}

/** A step of an episode that takes time. */
export type Phase = "engine" | "agent-model" | "tool" | "user" | "judge" | "grade";

/** What every observer reads of an event: the step that it ends, and what its engine or model calls were. */
export type EventFacts = {
  readonly phase: Phase;
  readonly durationMs: number;
  /** `null`: no turn of the policy. */
  readonly turn: number | null;
  /** The failed attempts of its calls. */
  readonly attempts: readonly Attempt[];
  /** `null`: no call of the policy. */
  readonly tokens: { readonly prompt: number; readonly sampled: number; readonly cached: number | null } | null;
};

/** `null` for events that take no time. */
export function factsOf(event: EpisodeEvent): EventFacts | null {
  const plain = { turn: null, attempts: [], tokens: null };
  switch (event.type) {
    case "turn": {
      const { promptTokens: prompt, completionTokens: sampled, cachedTokens: cached } = event.usage;
      const { attempts, durationMs } = event;
      return { phase: "engine", durationMs, turn: event.turn.index, attempts, tokens: { prompt, sampled, cached } };
    }
    case "agent-reply": {
      const { attempts, durationMs, turn, usage } = event;
      const tokens = { prompt: usage.inputTokens, sampled: usage.outputTokens, cached: null };
      return { phase: "agent-model", durationMs, turn, attempts, tokens };
    }
    case "tool-result":
      return { ...plain, phase: "tool", durationMs: event.durationMs, turn: event.turn };
    case "user-line":
      return { ...plain, phase: "user", durationMs: event.durationMs };
    case "judgement": {
      const { attempts, usage } = event.judgement;
      const tokens = { prompt: usage.inputTokens, sampled: usage.outputTokens, cached: null };
      return { ...plain, phase: "judge", durationMs: event.durationMs, attempts, tokens };
    }
    case "grade":
      return { ...plain, phase: "grade", durationMs: event.durationMs };
    case "episode-start":
    case "session":
    case "exchange":
    case "program":
    case "delivered":
    case "undelivered":
    case "decision":
    case "restart":
    case "close-failure":
    case "user-outcome":
    case "episode-end":
      return null;
    default:
      return event satisfies never;
  }
}

/** Whether an event that an earlier process recorded says that its episode is done: a cancelled one resumes. */
export function isDone(event: EpisodeEvent): boolean {
  return event.type === "episode-end" && event.stopReason !== "cancelled";
}

/** An observer of some calls; the others do nothing. */
export function observing(calls: Partial<RunObserver>): RunObserver {
  const ignore = (): void => undefined;
  const others = { event: ignore, recorded: ignore, group: ignore, gauges: ignore, staleness: ignore, circuit: ignore };
  return { ...others, close: async () => undefined, ...calls };
}

/** One observer of several; `null` for none, so that a run without observers pays for none. */
export function observeWithAll(observers: readonly RunObserver[]): RunObserver | null {
  const [only] = observers;
  if (only === undefined) return null;
  if (observers.length === 1) return only;
  const each = (call: (observer: RunObserver) => void): void => observers.forEach(call);
  return {
    event: (episodeId, event) => each((observer) => observer.event(episodeId, event)),
    recorded: (episodeId, event) => each((observer) => observer.recorded(episodeId, event)),
    group: (group) => each((observer) => observer.group(group)),
    gauges: (gauges) => each((observer) => observer.gauges(gauges)),
    staleness: (versions) => each((observer) => observer.staleness(versions)),
    circuit: (change) => each((observer) => observer.circuit(change)),
    close: async () => void (await Promise.all(observers.map((observer) => observer.close()))),
  };
}
