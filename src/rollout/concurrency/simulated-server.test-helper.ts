// A queueing model of an inference server with episodes, in simulated time: a batch that slows down
// as it fills, a limited number of places, a cache that overflows, users who think. Not an engine:
// nothing is sampled.

import type { EngineLoad } from "../../core/index.ts";
import { createRandom } from "../../lib/random.ts";
import { type ConcurrencyBounds, firstLimit, type LimitObservation, nextLimit } from "./next-limit.ts";

export type SimulatedServer = {
  /** Seconds of one decoding step: `base` plus `perRequest` for each request in the batch. */
  readonly base: number;
  readonly perRequest: number;
  /** Places in the batch; further requests wait. */
  readonly places: number;
  /** Size of the cache in tokens; above it, recomputing slows the server down in proportion. */
  readonly cacheTokens: number;
  /** Seconds between the turns of an episode, on average. */
  readonly thinking: number;
  /** False: `load` is `null`. */
  readonly reports: boolean;
  /** Number of waiting requests above which new ones are refused; `null` if none are refused. */
  readonly longestQueue: number | null;
};

type Episode = {
  turnsLeft: number;
  context: number;
  asked: number;
  tokensLeft: number;
  wakesAt: number;
  at: "thinking" | "waiting" | "running";
};

export type Simulation = {
  readonly tokensPerSecond: number;
  readonly mostRunning: number;
  readonly limits: readonly number[];
};

const stepSeconds = 0.05;
const observedEverySeconds = 1;

/** Runs for `seconds` and measures the second half. `limitOf` is called at every observation. */
export function simulate(
  server: SimulatedServer,
  limitOf: (observation: LimitObservation) => number,
  { seconds, seed, start }: { readonly seconds: number; readonly seed: number; readonly start: number },
): Simulation {
  const random = createRandom(seed);
  const logNormal = (mean: number): number => {
    const normal = Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
    return mean * Math.exp(0.6 * normal - 0.18);
  };
  const episodes: Episode[] = [];
  const limits: number[] = [];
  const since = { calls: 0, tokens: 0, overloads: 0 };
  let limit = start;
  let measured = 0;
  let mostRunning = 0;
  for (let step = 0; step * stepSeconds < seconds; step++) {
    const now = step * stepSeconds;
    while (episodes.length < limit) {
      episodes.push({
        turnsLeft: 3 + random.integer(8),
        context: 600,
        asked: 0,
        tokensLeft: 0,
        wakesAt: now,
        at: "thinking",
      });
    }
    mostRunning = Math.max(mostRunning, episodes.length);
    let running = episodes.filter(({ at }) => at === "running").length;
    let waiting = episodes.filter(({ at }) => at === "waiting").length;
    for (const episode of episodes) {
      if (episode.at !== "thinking" || episode.wakesAt > now) continue;
      if (server.longestQueue !== null && running + waiting >= server.places + server.longestQueue) {
        since.overloads++;
        episode.wakesAt = now + 1;
        continue;
      }
      episode.at = "waiting";
      episode.asked = Math.max(8, logNormal(150));
      episode.tokensLeft = episode.asked;
      waiting++;
    }
    for (const episode of episodes) {
      if (episode.at !== "waiting" || running >= server.places) continue;
      episode.at = "running";
      running++;
      waiting--;
    }
    // A prefix cache keeps the context of an episode between two of its turns.
    const cached = episodes.reduce((sum, { context }) => sum + context, 0);
    const again = Math.max(1, cached / server.cacheTokens) ** 3;
    const rate = stepSeconds / ((server.base + server.perRequest * running) * again);
    for (let index = episodes.length - 1; index >= 0; index--) {
      const episode = episodes[index]!;
      if (episode.at !== "running") continue;
      const sampled = Math.min(rate, episode.tokensLeft);
      episode.tokensLeft -= sampled;
      episode.context += sampled;
      if (now >= seconds / 2) measured += sampled;
      if (episode.tokensLeft > 0) continue;
      since.calls++;
      since.tokens += episode.asked;
      episode.turnsLeft--;
      episode.at = "thinking";
      episode.wakesAt = now + logNormal(server.thinking);
      if (episode.turnsLeft === 0) episodes.splice(index, 1);
    }
    if ((step + 1) % Math.round(observedEverySeconds / stepSeconds) !== 0) continue;
    const load: EngineLoad = {
      servers: 1,
      running,
      waiting,
      kvUse: Math.min(1, cached / server.cacheTokens),
    };
    limit = limitOf({
      running: episodes.length,
      elapsedMs: observedEverySeconds * 1000,
      calls: since.calls,
      sampledTokens: since.tokens,
      overloads: since.overloads,
      load: server.reports ? load : null,
    });
    limits.push(limit);
    Object.assign(since, { calls: 0, tokens: 0, overloads: 0 });
  }
  return { tokensPerSecond: measured / (seconds / 2), mostRunning, limits };
}

/** Simulates a server with a fixed limit. */
export function simulateFixed(server: SimulatedServer, limit: number, seconds: number, seed: number): Simulation {
  return simulate(server, () => limit, { seconds, seed, start: limit });
}

/** Simulates a server with the controller under test. */
export function simulateAdaptive(
  server: SimulatedServer,
  bounds: ConcurrencyBounds,
  { seconds, seed }: { readonly seconds: number; readonly seed: number },
): Simulation {
  let state = firstLimit(bounds);
  const limitOf = (seen: LimitObservation): number => {
    state = nextLimit(state, seen, bounds);
    return state.limit;
  };
  return simulate(server, limitOf, { seconds, seed, start: state.limit });
}
