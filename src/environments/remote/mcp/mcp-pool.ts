// Server processes that are initialized before an episode needs them: starting one takes longer than an episode's calls do. Each
// serves one episode. One that has ended while it waited is dropped; what cannot be started is told to the episode that needs it.

import { setTimeout as sleep } from "node:timers/promises";

export type Warm = { readonly isOpen: boolean; close(): Promise<void> };

/** How long the pool keeps processes that no episode takes, in milliseconds. */
const idleMs = 30_000;

export class WarmPool<T extends Warm> {
  readonly #size: number;
  readonly #make: (signal: AbortSignal) => Promise<T>;
  readonly #ready: T[] = [];
  readonly #closing = new Set<Promise<unknown>>();
  #starting = 0;
  #stop = new AbortController();
  #takes = 0;
  /** Episodes that found one ready. */
  hits = 0;

  constructor(size: number, make: (signal: AbortSignal) => Promise<T>) {
    this.#size = size;
    this.#make = make;
  }

  /** One of its own for an episode: a ready one, or a fresh one. */
  async take(signal: AbortSignal): Promise<T> {
    let taken: T | undefined;
    while ((taken = this.#ready.shift()) !== undefined && !taken.isOpen) this.#drop(taken);
    this.#refill();
    void this.#closeWhenIdle(++this.#takes);
    if (taken === undefined) return this.#make(signal);
    this.hits++;
    return taken;
  }

  /** Ends those that are ready and those that are starting. It can be taken from again. */
  async close(): Promise<void> {
    this.#stop.abort(new Error("The pool is closed."));
    this.#stop = new AbortController();
    for (const ready of this.#ready.splice(0)) this.#drop(ready);
    await Promise.all(this.#closing);
  }

  async #closeWhenIdle(takes: number): Promise<void> {
    await sleep(idleMs, undefined, { ref: false });
    if (takes === this.#takes) await this.close();
  }

  #drop(one: T): void {
    const closing = one.close().catch(() => undefined);
    this.#closing.add(closing);
    void closing.then(() => this.#closing.delete(closing));
  }

  #refill(): void {
    const { signal } = this.#stop;
    while (this.#ready.length + this.#starting < this.#size) {
      this.#starting++;
      const made = this.#start(signal);
      this.#closing.add(made);
      void made.then(() => this.#closing.delete(made));
    }
  }

  async #start(signal: AbortSignal): Promise<void> {
    try {
      const one = await this.#make(signal);
      if (signal.aborted) this.#drop(one);
      else this.#ready.push(one);
    } catch {
      // The episode that needs one starts it itself, and says why it cannot.
    } finally {
      this.#starting--;
    }
  }
}
