// The wait after a server aborted a turn: loaded when the first one does.

import type { Engine } from "../../core/engine.ts";
import { AttributedError, faultAt } from "../../core/failure.ts";
import type { ResolvedOptions } from "./episode-options.ts";

/**
 * A trainer that aborts is about to pause the server or to load weights: if it were called again at
 * once, the server would continue with the old ones. Waits double up to the longest.
 */
const firstWaitMs = 100;
const longestWaitMs = 5000;

/**
 * Resolves with the milliseconds waited once the server takes requests again; after one short wait when the engine cannot report it.
 * Rejects with an `AttributedError` when the time is up, or with the reason of `signal`.
 */
export async function untilReady(
  engine: Engine,
  { clock, signal, engineAbort: { maxPauseMs } }: ResolvedOptions,
  random: () => number,
): Promise<number> {
  const start = clock.now();
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
    await clock.sleep(waitMs * (0.5 + random() / 2), signal ?? undefined);
    const waited = clock.now() - start;
    if (await isReady(engine)) return waited;
    if (waited < maxPauseMs) continue;
    throw faultAt(
      "engine",
      "timeout",
      `Cannot continue a turn that engine "${engine.name}" aborted: the server has not accepted requests for ${Math.round(waited)} ms, ` +
        `and the limit is ${maxPauseMs} ms; resume it, or raise engineAbort.maxPauseMs (--max-pause).`,
      { retryable: true },
    );
  }
}

/** One probe for all turns that wait for the same engine: an update aborts thousands of them at once. */
const probes = new WeakMap<Engine, Promise<boolean>>();

function isReady(engine: Engine): Promise<boolean> {
  if (engine.isReady === undefined) return Promise.resolve(true);
  const known = probes.get(engine);
  if (known !== undefined) return known;
  const probe = engine
    .isReady()
    // A permanent fault is reported by the next call.
    .catch((error: unknown) => !(error instanceof AttributedError && error.failure.retryable))
    .finally(() => probes.delete(engine));
  probes.set(engine, probe);
  return probe;
}
