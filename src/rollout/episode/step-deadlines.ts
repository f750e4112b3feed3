// Steps of an episode except engine calls: the boundary to which errors are attributed, the
// deadline of each step, and the signal that informs an environment that its answer is no longer
// awaited; and the ending of an episode, which steps return. Faults are thrown until the loop
// catches them, once, and turns them into endings. Not the deadlines of engine calls: see
// `sample-turn.ts`.

import { attribute, type Failure, type StopReason, type Boundary, faultAt } from "../../core/failure.ts";
import type { EnvironmentCallOptions } from "../../core/environment.ts";
import { DeadlineError, DeadlineRunner } from "../../lib/deadline.ts";
import type { ResolvedOptions } from "./episode-options.ts";

/** Steps that take time, except engine calls. */
const phases = {
  open: { boundary: "environment", option: "openMs", what: "open the environment of" },
  /** Opening by a source that bounds its openings itself. */
  "long-open": { boundary: "environment", option: null, what: "open the environment of" },
  call: { boundary: "environment", option: "environmentMs", what: "carry out a call in" },
  user: { boundary: "user", option: "userMs", what: "get a line of the user of" },
  grade: { boundary: "grader", option: "graderMs", what: "grade" },
  close: { boundary: "environment", option: "closeMs", what: "close the environment of" },
} as const;

/**
 * Informs an environment that a call has ended. The signal is created when it is first read: most
 * environments never read it.
 */
class CallEnd {
  #controller: AbortController | null = null;
  #reason: unknown = null;

  readonly options: EnvironmentCallOptions;

  constructor() {
    const signal = (): AbortSignal => this.#signal();
    this.options = {
      get signal() {
        return signal();
      },
    };
  }

  /** Signals that the answer is no longer awaited. */
  abort(reason: unknown): void {
    this.#reason = reason;
    this.#controller?.abort(reason);
  }

  #signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#reason !== null) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }
}

/** The steps of one episode, one at a time. */
export class StepDeadlines {
  readonly #options: ResolvedOptions;
  readonly #deadlines: DeadlineRunner;

  constructor(options: ResolvedOptions) {
    this.#options = options;
    this.#deadlines = new DeadlineRunner({ clock: options.clock, signal: options.signal ?? undefined });
  }

  /**
   * Runs extension code and attributes its errors to a boundary. Throws when the episode is
   * cancelled.
   */
  async guard<T>(boundary: Boundary, action: () => T | Promise<T>): Promise<T> {
    this.#options.signal?.throwIfAborted();
    try {
      return await action();
    } catch (error) {
      throw attribute(error, boundary);
    }
  }

  /** Runs `guard` and measures the time that it took. */
  async timed<T>(boundary: Boundary, action: () => T | Promise<T>): Promise<{ result: T; durationMs: number }> {
    const start = this.#options.clock.now();
    const result = await this.guard(boundary, action);
    return { result, durationMs: this.#options.clock.now() - start };
  }

  /** Runs an action until the episode is cancelled. */
  run<T>(action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return this.#deadlines.run(action, Infinity);
  }

  /**
   * Calls the environment. Most run in this process and have answered already. `onLate` receives an
   * answer that is no longer awaited.
   */
  ask<T>(
    phase: keyof typeof phases,
    call: (options: EnvironmentCallOptions) => T | Promise<T>,
    onLate: (answer: T) => void = () => undefined,
  ): T | Promise<T> {
    const end = new CallEnd();
    const answer = call(end.options);
    if (!(answer instanceof Promise)) return answer;
    return this.bounded(phase, () => answer).catch((error: unknown) => {
      end.abort(error);
      answer.then(onLate, () => undefined);
      throw error;
    });
  }

  /** Runs a step with its deadline; exceeding it is a failure "timeout" at the boundary of the step. */
  async bounded<T>(phase: keyof typeof phases, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { timeouts, episodeId, clock } = this.#options;
    const { boundary, option, what } = phases[phase];
    // Closing is not cancelled: a cancelled episode also closes its environment.
    const deadlines = phase === "close" ? new DeadlineRunner({ clock }) : this.#deadlines;
    try {
      return await deadlines.run(action, option === null ? Infinity : timeouts[option]);
    } catch (error) {
      if (!(error instanceof DeadlineError)) throw error;
      const message = `Cannot ${what} episode "${episodeId}": no result within ${error.timeoutMs} ms; raise timeouts.${option ?? "openMs"}, or find out why it takes so long.`;
      throw faultAt(boundary, "timeout", message, { retryable: true, cause: error });
    }
  }
}

/** The ending of an episode. */
export type Ending = {
  readonly type: "ending";
  readonly stopReason: StopReason;
  /** The failure of an ending by a fault; `null` otherwise. */
  readonly failure: Failure | null;
};

export function stop(stopReason: StopReason): Ending {
  return { type: "ending", stopReason, failure: null };
}

/** The ending for a thrown error: a cancelled episode, a full context, or a fault. */
export function endingOf(error: unknown, signal: AbortSignal | null): Ending {
  if (signal?.aborted) return stop("cancelled");
  const { failure } = attribute(error, "environment");
  if (failure.boundary === "engine" && failure.code === "context-length") return stop("context_length");
  return { type: "ending", stopReason: "fault", failure };
}

export function isEnding(value: { readonly type: string } | null): value is Ending {
  return value?.type === "ending";
}
