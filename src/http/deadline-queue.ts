// Deadlines of many calls on one sleeping timer. Calls of one pool mostly have the same timeout, so deadlines end in the
// order in which they began, and a call pays for a list entry and not for a timer with its signal.

import type { Clock } from "../lib/clock.ts";

type Entry = { readonly endsAt: number; readonly callback: () => void };

/** Deadlines of one length. Sleeps only while there is a deadline, so that it does not keep the process alive. */
export class DeadlineQueue {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  /** In the order of their ends. */
  readonly #entries = new Set<Entry>();
  #sleeper: AbortController | null = null;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Calls back when the time is up, until the returned function is called. */
  add(callback: () => void): () => void {
    const entry = { endsAt: this.#clock.now() + this.#timeoutMs, callback };
    this.#entries.add(entry);
    if (this.#sleeper === null) this.#sleep(this.#timeoutMs);
    return () => {
      this.#entries.delete(entry);
      // The next call of an episode often begins before the event loop turns; the timer then serves it too.
      if (this.#entries.size === 0 && this.#sleeper !== null) setImmediate(() => this.#rest());
    };
  }

  #sleep(ms: number): void {
    const sleeper = new AbortController();
    this.#sleeper = sleeper;
    this.#clock.sleep(ms, sleeper.signal).then(
      () => this.#wake(),
      () => undefined,
    );
  }

  #wake(): void {
    this.#sleeper = null;
    const now = this.#clock.now();
    const due: Entry[] = [];
    for (const entry of this.#entries) {
      if (entry.endsAt > now) {
        this.#sleep(entry.endsAt - now);
        break;
      }
      due.push(entry);
      this.#entries.delete(entry);
    }
    for (const { callback } of due) callback();
  }

  #rest(): void {
    if (this.#entries.size > 0) return;
    this.#sleeper?.abort(noDeadline);
    this.#sleeper = null;
  }
}

const noDeadline = new Error("There is no deadline left.");
