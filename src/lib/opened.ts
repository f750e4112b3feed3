// The list of resources that a start has opened so far, to close them if a later part fails, and at
// the end. It does not know what they are.

import { type Clock, systemClock } from "./clock.ts";

/** Closes resources in reverse order; if closing one fails, the others are still closed. */
export class Opened {
  readonly #clock: Clock;
  readonly #closers: (() => unknown)[] = [];

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Registers an opened resource; `close` may return a promise. */
  add(close: () => unknown): void {
    this.#closers.push(close);
  }

  /**
   * Closes everything once; a second call closes resources added since. Rejects with the first
   * fault, after everything is closed.
   */
  async close(): Promise<void> {
    const faults: unknown[] = [];
    for (let close = this.#closers.pop(); close !== undefined; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        faults.push(error);
      }
    }
    if (faults.length > 0) throw faults[0];
  }

  /**
   * Closes everything after a fault that matters more: never rejects, and resolves after `limitMs`
   * at the latest, so that a hanging close cannot keep the fault from being reported.
   */
  async abandon(limitMs: number): Promise<void> {
    let cancel = (): void => undefined;
    const timeUp = new Promise<void>((resolve) => (cancel = this.#clock.after(limitMs, resolve)));
    await Promise.race([this.close().catch(() => undefined), timeUp]);
    cancel();
  }
}

/** Maximum time in milliseconds that a failed start may take to close its resources. */
export const failedStartMs = 3000;
