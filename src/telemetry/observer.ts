// Observers of a run: they see events once these are recorded, and return nothing. This is the only
// contract of metrics, traces, event files and log lines, and the only table of the facts they read
// from an event. It is not a journal: an observer may miss or forget events, and its faults never
// affect an episode.

import type { Attempt, EpisodeEvent, GroupRecord } from "../core/index.ts";

/** Current values of a run, for gauges. */
export type RunGauges = {
  readonly runningEpisodes: number;
  /** Number of episodes planned but not started; `null` if the plan is endless. */
  readonly waitingEpisodes: number | null;
  /** Current maximum number of concurrent episodes. */
  readonly concurrencyLimit: number;
};

/**
 * A circuit change: the server gets no calls because it failed ("open"), is tried again
 * ("half-open"), or is back ("closed").
 */
export type CircuitChange = {
  /** Address of the server, safe to show. */
  readonly server: string;
  readonly state: "open" | "half-open" | "closed";
  /** Number of consecutive failures. */
  readonly failures: number;
};

/**
 * Observes a run. Calls are synchronous and must be quick; slow work (files, sockets) happens
 * asynchronously.
 *
 * Guarantees: no call throws; `close` resolves when everything observed has been written. Not
 * guaranteed: any order between events of different episodes.
 */
export interface RunObserver {
  event(episodeId: string, event: EpisodeEvent): void;
  /**
   * An event that an earlier process recorded of an episode that has ended or resumes. It took no
   * time in this process.
   */
  recorded(episodeId: string, event: EpisodeEvent): void;
  group(group: GroupRecord): void;
  gauges(gauges: RunGauges): void;
  /**
   * Number of versions between the trainer's weights and the oldest weights of a group, or of an
   * episode, at its delivery.
   */
  staleness(versions: number): void;
  circuit(change: CircuitChange): void;
  close(): Promise<void>;
}

/** A step of an episode that takes time. */
export type Phase = "engine" | "agent-model" | "tool" | "user" | "judge" | "grade";

/**
 * The facts that all observers read from an event: the step that it ends, and the engine or model
 * calls of that step.
 */
export type EventFacts = {
  readonly phase: Phase;
  readonly durationMs: number;
  /** `null` if the event is not a turn of the policy. */
  readonly turn: number | null;
  /** Failed attempts of its calls. */
  readonly attempts: readonly Attempt[];
  /** `null` if the event is not a call of the policy. */
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
    case "lineages":
    case "close-failure":
    case "user-outcome":
    case "episode-end":
      return null;
    default:
      return event satisfies never;
  }
}

/**
 * True if an event recorded by an earlier process shows that its episode is done: a cancelled one
 * resumes.
 */
export function isDone(event: EpisodeEvent): boolean {
  return event.type === "episode-end" && event.stopReason !== "cancelled";
}

/** An observer that handles only the given calls. */
export function observing(calls: Partial<RunObserver>): RunObserver {
  const ignore = (): void => undefined;
  const others = { event: ignore, recorded: ignore, group: ignore, gauges: ignore, staleness: ignore, circuit: ignore };
  return { ...others, close: async () => undefined, ...calls };
}

/** Combines several observers; `null` for none, so that a run without observers has no overhead. */
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
