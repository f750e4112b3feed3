// Holds the turns of all episodes while a trainer changes weights: an engine behind a gate is asked only while the gate is
// open. Episodes wait where they are; environments and users notice nothing.

import { AttributedError, type Engine } from "../core/index.ts";
import { type Clock, systemClock } from "../lib/clock.ts";
import { DeadlineError, withDeadline } from "../lib/deadline.ts";

/** Open or closed. Waiters go on in the order they came. */
export class TurnGate {
  readonly #waiters = new Set<() => void>();
  #isOpen = true;

  get isOpen(): boolean {
    return this.#isOpen;
  }

  close(): void {
    this.#isOpen = false;
  }

  open(): void {
    this.#isOpen = true;
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const goOn of waiters) goOn();
  }

  /** Resolves when the gate is open; rejects with the signal's reason when it aborts first. */
  async pass(signal?: AbortSignal): Promise<void> {
    while (!this.#isOpen) {
      await new Promise<void>((resolve, reject) => {
        if (signal?.aborted === true) return reject(signal.reason as Error);
        const onAbort = (): void => {
          this.#waiters.delete(goOn);
          reject(signal?.reason as Error);
        };
        const goOn = (): void => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        };
        this.#waiters.add(goOn);
        signal?.addEventListener("abort", onAbort, { once: true });
      });
    }
  }
}

export type GatedEngineOptions = {
  /** Bound of one call, in milliseconds; running into it is a retryable fault. What a call waits at the gate is not counted. Default: none. */
  readonly timeoutMs?: number;
  /** Default: the real clock. */
  readonly clock?: Clock;
};

/** The engine, asked only while the gate is open. Closing it closes the engine. */
export function gatedEngine(engine: Engine, gate: TurnGate, options: GatedEngineOptions = {}): Engine {
  const { timeoutMs = Infinity, clock = systemClock } = options;
  return {
    name: engine.name,
    async sample(request, { signal } = {}) {
      if (!gate.isOpen) await gate.pass(signal);
      try {
        return await withDeadline((bounded) => engine.sample(request, { signal: bounded }), {
          timeoutMs,
          clock,
          signal,
        });
      } catch (error) {
        if (!(error instanceof DeadlineError)) throw error;
        throw new AttributedError(
          {
            boundary: "engine",
            code: "timeout",
            message: `Cannot finish call "${request.requestId}": engine "${engine.name}" did not answer within ${timeoutMs} ms; raise the turn timeout or lower the concurrency.`,
            retryable: true,
            cause: null,
          },
          { cause: error },
        );
      }
    },
    // Without it, a call that the server aborted for new weights would be sent again while they load.
    ...(engine.isReady === undefined ? {} : { isReady: (asked) => engine.isReady!(asked) }),
    close: () => engine.close(),
  };
}
