// What a turn does when the server aborts its call, as servers do to load new weights. Policy and waiting only; the tokens are
// put together in `sample-turn.ts`.

import type { Engine } from "../../core/engine.ts";
import { AttributedError, type Failure } from "../../core/failure.ts";
import type { Clock } from "../../lib/clock.ts";

/** A frozen value. */
export type EngineAbortPolicy = {
  /**
   * "continue": the turn goes on from its partial tokens under the weights that the server then has; its weight spans tell
   * which tokens came from which. "restart": the partial tokens are dropped with reason "discarded-turn" and the turn is
   * sampled anew. "end": the episode ends as aborted, and nothing of it is trained.
   */
  readonly onAbort: "continue" | "restart" | "end";
  /** An abort of one turn beyond this many ends the episode as aborted. At least 0. */
  readonly maxAborts: number;
  /**
   * How long an aborted turn waits for a server that does not take requests (paused, loading weights, starting), in
   * milliseconds; after that the episode fails with code "timeout".
   */
  readonly maxPauseMs: number;
};

/** Long turns live through many weight updates, and loading large weights takes minutes. */
export const defaultEngineAbort: EngineAbortPolicy = Object.freeze({
  onAbort: "continue",
  maxAborts: 32,
  maxPauseMs: 900_000,
});

/** Throws a `RangeError` that names the option and its value. */
export function checkEngineAbort({ onAbort, maxAborts, maxPauseMs }: EngineAbortPolicy): void {
  const refuse = (name: string, value: unknown, wanted: string): never => {
    throw new RangeError(`Cannot play an episode: engineAbort.${name} is ${String(value)}, ${wanted} is needed.`);
  };
  if (!["continue", "restart", "end"].includes(onAbort)) refuse("onAbort", onAbort, "continue, restart or end");
  if (!Number.isInteger(maxAborts) || maxAborts < 0) refuse("maxAborts", maxAborts, "a whole number of at least 0");
  if (!(maxPauseMs >= 0)) refuse("maxPauseMs", maxPauseMs, "at least 0");
}

/** As an entry in the log of a turn. */
export function abortFailure(engine: Engine, sampled: number): Failure {
  return {
    boundary: "engine",
    code: "aborted",
    message: `Engine "${engine.name}" aborted the call after ${sampled} tokens.`,
    retryable: true,
    cause: null,
  };
}

/**
 * A trainer that aborts is about to pause the server or to load weights: asked again at once, the server would sample on
 * with the old ones. Waits double up to the longest.
 */
const firstWaitMs = 100;
const longestWaitMs = 5000;

/**
 * Resolves with the milliseconds waited once the server takes requests again; after one short wait when nobody can tell.
 * Rejects with an `AttributedError` when the time is up, or with the reason of `signal`.
 */
export async function untilReady(
  engine: Engine,
  options: {
    readonly maxPauseMs: number;
    readonly clock: Clock;
    readonly random: () => number;
    readonly signal: AbortSignal | null;
  },
): Promise<number> {
  const { maxPauseMs, clock, random, signal } = options;
  const start = clock.now();
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
    await clock.sleep(waitMs * (0.5 + random() / 2), signal ?? undefined);
    const waited = clock.now() - start;
    if (await isReady(engine)) return waited;
    if (waited < maxPauseMs) continue;
    throw new AttributedError({
      boundary: "engine",
      code: "timeout",
      message:
        `Cannot go on with a turn that engine "${engine.name}" aborted: the server has taken no requests for ${Math.round(waited)} ms, ` +
        `at most ${maxPauseMs} ms are waited; continue it, or raise engineAbort.maxPauseMs (--max-pause).`,
      retryable: true,
      cause: null,
    });
  }
}

/** One question for all turns that wait for the same engine: an update aborts thousands of them at once. */
const asked = new WeakMap<Engine, Promise<boolean>>();

function isReady(engine: Engine): Promise<boolean> {
  if (engine.isReady === undefined) return Promise.resolve(true);
  const known = asked.get(engine);
  if (known !== undefined) return known;
  const question = engine
    .isReady()
    // A fault that will not pass is told by the next call, in its own words.
    .catch((error: unknown) => !(error instanceof AttributedError && error.failure.retryable))
    .finally(() => asked.delete(engine));
  asked.set(engine, question);
  return question;
}
