// Computes the next limit of episodes in flight from the last one and the latest observation. A
// pure function, so that a controller is tested in microseconds; observing and applying the limit
// is in `episode-limit.ts`.
//
// Up by probing, down by shares: additive-increase, multiplicative-decrease (Chiu and Jain 1989)
// with slow start (Jacobson 1988). A step up stays only if tokens per second rose with it, so the
// limit also climbs on a server that does not report its load (hill climbing, as in the concurrency
// limits of Netflix). A queue, a full cache or refusals cut at once, and after a cut nothing is
// judged until the surplus has drained.
//
//   grow ──no gain──► hold ──every few rounds──► probe ──gain──► hold there (or grow, when it was nearly in proportion)
//    │                 │                          └──no gain──► hold, back where it was, and probe less often
//    └───── pressure ──┴──► drain ──running <= limit──► hold

import type { EngineLoad } from "../../core/index.ts";

export type ConcurrencyBounds = {
  /** Minimum of episodes in flight. */
  readonly floor: number;
  /** Maximum of episodes in flight. */
  readonly ceiling: number;
};

function within(value: number, { floor, ceiling }: ConcurrencyBounds): number {
  return Math.min(ceiling, Math.max(floor, Math.round(value)));
}

/** Calls, tokens and load since the last observation. */
export type LimitObservation = {
  /** Episodes in flight now. */
  readonly running: number;
  readonly elapsedMs: number;
  /** Engine calls that ended. */
  readonly calls: number;
  readonly sampledTokens: number;
  /** Engine calls that the server refused for being busy, or that ran out of time. */
  readonly overloads: number;
  /** Load of the servers; `null` if it is not known. */
  readonly load: EngineLoad | null;
};

type Window = { readonly elapsedMs: number; readonly calls: number; readonly sampledTokens: number };

export type LimitState = {
  readonly limit: number;
  readonly phase: "grow" | "hold" | "probe" | "drain";
  /** Limit and speed before the last step; `null`: nothing to compare with yet. */
  readonly before: { readonly limit: number; readonly tokensPerSecond: number } | null;
  /** False: the limit has just changed, and calls from before the change are still ending. */
  readonly isSettled: boolean;
  readonly window: Window;
  /** Rounds to hold before the next probe. */
  readonly patience: number;
  /**
   * Direction of the next probe. Down only if the server does not report its load; otherwise its
   * load shows when there is too much.
   */
  readonly direction: "up" | "down";
  /**
   * Consecutive observations with a queue: a single one is the echo of many turns that ended
   * together.
   */
  readonly queued: number;
};

/**
 * Cache use above which the cache is nearly full, and servers begin to evict entries that they will
 * need again.
 */
const fullCache = 0.95;
/** Cache use that a cut aims at. */
const goodCache = 0.85;
/**
 * Cache use at which growing stops: below the cut, because contexts of episodes in flight keep
 * growing.
 */
const growingCache = 0.8;
/**
 * Share of waiting to running requests that counts as a queue; three observations in a row are
 * needed.
 */
const queueShare = 0.1;
const queuePersistence = 3;
const growth = 1.5;
const probeGrowth = 1.25;
/** Smallest relative gains of tokens per second that justify a step of 50 % and one of 25 %. */
const gainOfGrowth = 0.04;
const gainOfProbe = 0.012;
/** A probe that gains this much met no bottleneck. */
const gainInProportion = 0.15;
const worse = -0.03;
/** A loss this large counts at once, without further observations. */
const muchWorse = -0.1;
const firstPatience = 2;
const mostPatience = 16;

/**
 * Calls of a round, per episode in flight and as a minimum. A gain counts as soon as it shows; the
 * lack of one only after more rounds.
 */
const callsOfRound = 2;
const leastCalls = 32;
const settlingCalls = 2;
const roundsUntilNo = 4;

/** Default first limit: enough to measure, and small enough for any server. */
const usualStart = 16;

const emptyWindow: Window = { elapsedMs: 0, calls: 0, sampledTokens: 0 };

/** First state: at `start`, by default 16, within the bounds. */
export function firstLimit(bounds: ConcurrencyBounds, start: number = Math.max(bounds.floor, usualStart)): LimitState {
  return {
    limit: within(start, bounds),
    phase: "grow",
    before: null,
    isSettled: true,
    window: emptyWindow,
    patience: firstPatience,
    direction: "up",
    queued: 0,
  };
}

/** The limit never leaves the bounds. Equal inputs give equal states. */
export function nextLimit(state: LimitState, seen: LimitObservation, bounds: ConcurrencyBounds): LimitState {
  const queued = isQueue(seen.load) ? state.queued + 1 : 0;
  if (state.phase === "drain") {
    return seen.running > state.limit ? state : settle({ ...state, queued: 0 }, state.limit, "hold");
  }
  const share = cutShare(seen, queued);
  if (share !== null) {
    // The episodes in flight caused the pressure, not a limit that was never reached.
    const cut = within(Math.floor(Math.min(state.limit, Math.max(seen.running, bounds.floor)) * share), bounds);
    return { ...settle(state, cut, "drain"), patience: firstPatience };
  }
  // If there are few calls because there are few episodes, they say nothing about the limit.
  if (seen.running < 0.9 * state.limit) return { ...state, queued, window: emptyWindow };
  const window = add(state.window, seen);
  const round = Math.max(leastCalls, callsOfRound * state.limit);
  if (!state.isSettled) {
    // Episodes above a lowered limit end on their own, and until then the measurement would not be
    // of the new limit.
    if (seen.running > state.limit) return { ...state, queued, window: emptyWindow };
    const isSettled = window.calls >= settlingCalls * state.limit;
    return { ...state, queued, isSettled, window: isSettled ? emptyWindow : window };
  }
  if (window.calls < round || window.elapsedMs <= 0) return { ...state, queued, window };
  return { ...nextStep({ ...state, window }, { round, load: seen.load, bounds }), queued };
}

type Round = { readonly round: number; readonly load: EngineLoad | null; readonly bounds: ConcurrencyBounds };

/** Decides after at least a round at one limit: step on, step back, or observe longer. */
function nextStep(state: LimitState, { round, load, bounds }: Round): LimitState {
  const { limit, phase, before, patience, direction, window } = state;
  const tokensPerSecond = (window.sampledTokens * 1000) / window.elapsedMs;
  const mayGrow = limit < bounds.ceiling && (load?.kvUse ?? 0) < growingCache && !isQueue(load);
  const gain = before === null ? Infinity : tokensPerSecond / before.tokensPerSecond - 1;
  const isLate = window.calls >= roundsUntilNo * round || gain < muchWorse;
  const step = (factor: number, to: "grow" | "probe"): LimitState => ({
    ...settle(state, within(factor < 1 ? limit * factor : Math.max(limit + 1, limit * factor), bounds), to),
    before: { limit, tokensPerSecond },
  });
  switch (phase) {
    case "grow": {
      if (gain >= gainOfGrowth) return mayGrow ? step(growth, "grow") : hold(state, limit, firstPatience);
      if (!isLate) return state;
      return hold(state, before !== null && gain < worse ? before.limit : limit, firstPatience);
    }
    case "probe": {
      if (gain >= gainInProportion && mayGrow && direction === "up") return step(growth, "grow");
      if (!isLate) return state;
      if (gain >= gainOfProbe || before === null) return hold(state, limit, firstPatience);
      const turned = { ...state, direction: direction === "up" ? "down" : "up" } as const;
      return hold(turned, before.limit, Math.min(mostPatience, patience * 2));
    }
    case "hold":
    case "drain":
      if (window.calls < patience * round) return state;
      if (direction === "down" && load === null && limit > bounds.floor) return step(1 / probeGrowth, "probe");
      return mayGrow ? { ...step(probeGrowth, "probe"), direction: "up" } : state;
    default:
      return phase satisfies never;
  }
}

function hold(state: LimitState, limit: number, patience: number): LimitState {
  return { ...settle(state, limit, "hold"), patience };
}

function settle(state: LimitState, limit: number, phase: LimitState["phase"]): LimitState {
  const isSettled = limit === state.limit;
  return { ...state, limit, phase, isSettled, window: emptyWindow, before: null };
}

/** Share of the limit that a cut leaves; `null` without pressure. */
function cutShare({ load, overloads }: LimitObservation, queued: number): number | null {
  if (overloads > 0) return 0.7;
  const kvUse = load?.kvUse ?? 0;
  if (kvUse > fullCache) return goodCache / kvUse;
  return queued >= queuePersistence ? 0.9 : null;
}

function isQueue(load: EngineLoad | null): boolean {
  return load !== null && load.waiting > Math.max(1, queueShare * load.running);
}

function add(window: Window, seen: LimitObservation): Window {
  return {
    elapsedMs: window.elapsedMs + seen.elapsedMs,
    calls: window.calls + seen.calls,
    sampledTokens: window.sampledTokens + seen.sampledTokens,
  };
}
