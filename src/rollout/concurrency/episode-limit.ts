// Limit of episodes in flight: a fixed number, or one that follows the servers. Starting and ending
// episodes is up to the scheduler.

import type { EngineLoad, EngineLoadSource, EpisodeEvent } from "../../core/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import type { ObservedCalls } from "../episode-runner.ts";
import { type ConcurrencyBounds, firstLimit, nextLimit } from "./next-limit.ts";

/** Follows the servers between two bounds. */
export type AdaptiveConcurrency = ConcurrencyBounds & {
  /** First limit. Default: 16, within the bounds. */
  readonly start?: number;
  /**
   * Reports the load of the servers; `null` if it is not available, so that only tokens per second
   * decide.
   */
  readonly load: EngineLoadSource | null;
  /** Interval between observations, in milliseconds. Default: 2,000. */
  readonly intervalMs?: number;
};

export interface EpisodeLimit {
  readonly current: number;
  /** Receives every new event of every episode. */
  observe(event: EpisodeEvent): void;
  /** Receives calls that other processes observed, in place of events. */
  count(observed: ObservedCalls): void;
  /** `running` returns the episodes in flight; `onChange` is called when the limit has changed. */
  start(hooks: { readonly running: () => number; readonly onChange: () => void }): void;
  /** Cancels the timer and any request to a server. */
  stop(): void;
}

/** Throws a `RangeError` unless 1 <= floor <= ceiling, both whole. */
export function checkBounds({ floor, ceiling }: ConcurrencyBounds): ConcurrencyBounds {
  const isWhole = Number.isSafeInteger(floor) && Number.isSafeInteger(ceiling);
  if (!isWhole || floor < 1 || ceiling < floor) {
    throw new RangeError(
      `Cannot bound the concurrency: it is ${floor} to ${ceiling}, expected whole numbers with 1 <= floor <= ceiling.`,
    );
  }
  return { floor, ceiling };
}

/** Throws a `RangeError` for a number below 1 and for invalid bounds. */
export function createEpisodeLimit(setting: number | AdaptiveConcurrency, clock: Clock): EpisodeLimit {
  if (typeof setting !== "number") return adaptiveLimit(setting, clock);
  if (setting !== Infinity) checkBounds({ floor: setting, ceiling: setting });
  return {
    current: setting,
    observe: () => undefined,
    count: () => undefined,
    start: () => undefined,
    stop: () => undefined,
  };
}

/** Codes of failed attempts that indicate overload. */
const overloadCodes: ReadonlySet<string> = new Set(["overloaded", "timeout"]);

/** Calls that the event ends; `null` if it ends none. */
export function observedIn(event: EpisodeEvent): ObservedCalls | null {
  if (event.type !== "turn" && event.type !== "agent-reply") return null;
  const overloads = event.attempts.filter(({ failure }) => overloadCodes.has(failure.code)).length;
  return { calls: 1, sampledTokens: event.type === "turn" ? event.turn.sampledTokens.length : 0, overloads };
}
/** A server that takes longer to report its load counts as not reporting it this time. */
const loadTimeoutMs = 5_000;

function adaptiveLimit({ start, intervalMs = 2_000, ...setting }: AdaptiveConcurrency, clock: Clock): EpisodeLimit {
  if (!(intervalMs > 0)) throw new RangeError(`Cannot adapt: intervalMs is ${intervalMs}, expected more than 0.`);
  const bounds = checkBounds(setting);
  const stopped = new AbortController();
  let source = setting.load;
  let state = firstLimit(bounds, start);
  let cancelTimer = (): void => undefined;
  let lastLook = 0;
  const nothing = { calls: 0, sampledTokens: 0, overloads: 0 };
  let seen = { ...nothing };

  /** An unreachable server is queried again; one that reports nothing is not. */
  const readLoad = async (): Promise<EngineLoad | null> => {
    const reporting = source;
    if (reporting === null) return null;
    try {
      const options = { timeoutMs: loadTimeoutMs, clock, signal: stopped.signal };
      const load = await withDeadline((signal) => reporting.load({ signal }), options);
      if (load === null) source = null;
      return load;
    } catch {
      return null;
    }
  };
  const look = async (hooks: Parameters<EpisodeLimit["start"]>[0]): Promise<void> => {
    const load = await readLoad();
    if (stopped.signal.aborted) return;
    const now = clock.now();
    const before = state.limit;
    state = nextLimit(state, { ...seen, running: hooks.running(), elapsedMs: now - lastLook, load }, bounds);
    lastLook = now;
    seen = { ...nothing };
    wait(hooks);
    if (state.limit !== before) hooks.onChange();
  };
  const wait = (hooks: Parameters<EpisodeLimit["start"]>[0]): void => {
    if (!stopped.signal.aborted) cancelTimer = clock.after(intervalMs, () => void look(hooks));
  };

  return {
    get current() {
      return state.limit;
    },
    observe(event) {
      const observed = observedIn(event);
      if (observed !== null) this.count(observed);
    },
    count({ calls, sampledTokens, overloads }) {
      seen.calls += calls;
      seen.sampledTokens += sampledTokens;
      seen.overloads += overloads;
    },
    start(hooks) {
      lastLook = clock.now();
      wait(hooks);
    },
    stop() {
      cancelTimer();
      stopped.abort(new Error("The run has ended."));
    },
  };
}
