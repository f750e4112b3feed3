// What a start has opened so far, for the moment at which a later part of it fails, and for the end. Not what is opened.

import { type Clock, systemClock } from "./clock.ts";

/** Closes what was opened, the last first: whatever one close does, the others are closed, too. */
export class Opened {
  readonly #clock: Clock;
  readonly #closers: (() => unknown)[] = [];

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Something was opened; `close` may return a promise. */
  add(close: () => unknown): void {
    this.#closers.push(close);
  }

  /** Closes everything once; a second call closes what was added since. Rejects with the first fault, after everything is closed. */
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
   * The same after a fault, which is what counts: never rejects, and resolves after `limitMs` at the latest, so that nothing which hangs
   * keeps the fault from being told.
   */
  async abandon(limitMs: number): Promise<void> {
    let cancel = (): void => undefined;
    const timeUp = new Promise<void>((resolve) => (cancel = this.#clock.after(limitMs, resolve)));
    await Promise.race([this.close().catch(() => undefined), timeUp]);
    cancel();
  }
}

/** Longest that a failed start may take to close what it has opened. */
export const failedStartMs = 3000;
