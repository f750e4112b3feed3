// How many episodes may be in flight: a fixed number, or one that follows the servers. Starting and ending episodes is up to
// the scheduler.

import type { EngineLoad, EngineLoadSource, EpisodeEvent } from "../../core/index.ts";
import type { Clock } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import { checkBounds, type ConcurrencyBounds, firstLimit, type LimitState, nextLimit } from "./next-limit.ts";

/** Follows the servers between two bounds. */
export type AdaptiveConcurrency = ConcurrencyBounds & {
  /** Default: 16, between the bounds. */
  readonly start?: number;
  /** Reports how busy the servers are; `null`: not available, and tokens a second alone decide. */
  readonly load: EngineLoadSource | null;
  /** Between two looks. Default: 2,000. */
  readonly intervalMs?: number;
};

export interface EpisodeLimit {
  readonly current: number;
  /** Receives every new event of every episode. */
  observe(event: EpisodeEvent): void;
  /** `running` returns the episodes in flight; `onChange` is called when the limit has changed. */
  start(hooks: { readonly running: () => number; readonly onChange: () => void }): void;
  /** Leaves no timer and no request to a server behind. */
  stop(): void;
}

/** Throws a `RangeError` for a number below 1 and for bounds that are none. */
export function createEpisodeLimit(setting: number | AdaptiveConcurrency, clock: Clock): EpisodeLimit {
  if (typeof setting !== "number") return new AdaptiveLimit(setting, clock);
  if (setting !== Infinity) checkBounds({ floor: setting, ceiling: setting });
  return { current: setting, observe: () => undefined, start: () => undefined, stop: () => undefined };
}

/** Codes of failed attempts that say "too much at once". */
const overloadCodes: ReadonlySet<string> = new Set(["overloaded", "timeout"]);
/** A server that takes longer to say how busy it is counts as silent for this once. */
const loadTimeoutMs = 5_000;

class AdaptiveLimit implements EpisodeLimit {
  readonly #clock: Clock;
  readonly #bounds: ConcurrencyBounds;
  readonly #intervalMs: number;
  readonly #stopped = new AbortController();
  #source: EngineLoadSource | null;
  #state: LimitState;
  #hooks: { readonly running: () => number; readonly onChange: () => void } | null = null;
  #cancelTimer: (() => void) | null = null;
  #lastLook = 0;
  #calls = 0;
  #sampledTokens = 0;
  #overloads = 0;

  constructor(setting: AdaptiveConcurrency, clock: Clock) {
    const { start, load, intervalMs = 2_000 } = setting;
    if (!(intervalMs > 0)) throw new RangeError(`Cannot adapt: intervalMs is ${intervalMs}, more than 0 is needed.`);
    this.#clock = clock;
    this.#bounds = checkBounds(setting);
    this.#intervalMs = intervalMs;
    this.#source = load;
    this.#state = firstLimit(this.#bounds, start);
  }

  get current(): number {
    return this.#state.limit;
  }

  observe(event: EpisodeEvent): void {
    if (event.type !== "turn" && event.type !== "agent-reply") return;
    this.#calls++;
    if (event.type === "turn") this.#sampledTokens += event.turn.sampledTokens.length;
    this.#overloads += event.attempts.filter(({ failure }) => overloadCodes.has(failure.code)).length;
  }

  start(hooks: { readonly running: () => number; readonly onChange: () => void }): void {
    this.#hooks = hooks;
    this.#lastLook = this.#clock.now();
    this.#wait();
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#stopped.abort(new Error("The run has ended."));
  }

  #wait(): void {
    if (!this.#stopped.signal.aborted) this.#cancelTimer = this.#clock.after(this.#intervalMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    const load = await this.#readLoad();
    const hooks = this.#hooks;
    if (this.#stopped.signal.aborted || hooks === null) return;
    const now = this.#clock.now();
    const before = this.#state.limit;
    this.#state = nextLimit(
      this.#state,
      {
        running: hooks.running(),
        elapsedMs: now - this.#lastLook,
        calls: this.#calls,
        sampledTokens: this.#sampledTokens,
        overloads: this.#overloads,
        load,
      },
      this.#bounds,
    );
    this.#lastLook = now;
    this.#calls = 0;
    this.#sampledTokens = 0;
    this.#overloads = 0;
    this.#wait();
    if (this.#state.limit !== before) hooks.onChange();
  }

  /** An unreachable server is queried again; one that reports nothing is not. */
  async #readLoad(): Promise<EngineLoad | null> {
    const source = this.#source;
    if (source === null) return null;
    try {
      const { signal } = this.#stopped;
      const load = await withDeadline((bounded) => source.load({ signal: bounded }), {
        timeoutMs: loadTimeoutMs,
        clock: this.#clock,
        signal,
      });
      if (load === null) this.#source = null;
      return load;
    } catch {
      return null;
    }
  }
}
