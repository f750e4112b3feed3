// Holds the turns of all episodes while a trainer changes weights: an engine wrapped by a gate
// receives calls only while the gate is open. Episodes wait at their current turn; environments and
// users are not affected.

import { type Engine, faultAt } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { DeadlineError, withDeadline, Waiters } from "../lib/deadline.ts";

/** A gate that is open or closed. Waiters pass in the order of arrival. */
export class TurnGate {
  readonly #waiters = new Waiters();
  readonly #idle = new Waiters();
  #isOpen = true;
  #callsInFlight = 0;

  /** Number of calls that have passed and not ended. */
  get callsInFlight(): number {
    return this.#callsInFlight;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  close(): void {
    this.#isOpen = false;
  }

  open(): void {
    this.#isOpen = true;
    this.#waiters.wake();
  }

  /** Resolves when no call that passed the gate is in flight. */
  async idle(): Promise<void> {
    while (this.#callsInFlight > 0) await this.#idle.wait();
  }

  /** Runs a call that has passed, and counts it as in flight. */
  async count<T>(call: () => Promise<T>): Promise<T> {
    this.#callsInFlight++;
    try {
      return await call();
    } finally {
      this.#callsInFlight--;
      if (this.#callsInFlight === 0) this.#idle.wake();
    }
  }

  /** Resolves when the gate is open; rejects with the signal's reason if that aborts first. */
  async pass(signal?: AbortSignal): Promise<void> {
    while (!this.#isOpen) await this.#waiters.wait(signal);
  }
}

export type GatedEngineOptions = {
  /**
   * Time limit of one call, in milliseconds; exceeding it is a retryable fault. The wait at the
   * gate is not counted. Default: none.
   */
  readonly timeoutMs?: number;
  /** Clock of the time limit. Default: the real clock. */
  readonly clock?: Clock;
};

/** The engine, called only while the gate is open. Closing it closes the engine. */
export function gatedEngine(engine: Engine, gate: TurnGate, options: GatedEngineOptions = {}): Engine {
  const { timeoutMs = Infinity, clock = systemClock } = options;
  return {
    name: engine.name,
    ...(engine.constraints === undefined ? {} : { constraints: engine.constraints }),
    ...(engine.samplingMaskProblem === undefined
      ? {}
      : { samplingMaskProblem: (sampling) => engine.samplingMaskProblem!(sampling) }),
    async sample(request, { signal, ...rest } = {}) {
      if (!gate.isOpen) await gate.pass(signal);
      try {
        return await gate.count(() =>
          withDeadline((bounded) => engine.sample(request, { ...rest, signal: bounded }), { timeoutMs, clock, signal }),
        );
      } catch (error) {
        if (!(error instanceof DeadlineError)) throw error;
        const message = `Cannot finish call "${request.requestId}": engine "${engine.name}" did not answer within ${timeoutMs} ms; raise the turn timeout or lower the concurrency.`;
        throw faultAt("engine", "timeout", message, { retryable: true, cause: error });
      }
    },
    // Without this, a call that the server aborted for new weights would be sent again while they
    // load.
    ...(engine.isReady === undefined ? {} : { isReady: (given) => engine.isReady!(given) }),
    close: () => engine.close(),
  };
}
