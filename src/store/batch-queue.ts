// Things to be written wait in memory while one write is under way or has just been, and then leave together: thousands of
// episodes share few writes, in the order they came, and none blocks the loop.

/** From the beginning of a write to that of the next, at least. A write costs the same for one line and for a hundred. */
const spacingMs = 2;

/** Hands batches to `write`, one batch at a time. After a failed write every later call rejects with the same error. */
export class BatchQueue<T> {
  readonly #write: (batch: readonly T[]) => Promise<void>;
  #waiting: T[] = [];
  /** The write that will take what waits; `null` when nothing waits. */
  #next: Promise<void> | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #spacing: Promise<void> = Promise.resolve();

  constructor(write: (batch: readonly T[]) => Promise<void>) {
    this.#write = write;
  }

  /** Resolves once the item is written. */
  add(item: T): Promise<void> {
    this.#waiting.push(item);
    if (this.#next === null) {
      const next = this.#last.then(() => this.#writeWaiting());
      this.#next = next;
      // A failed write is never followed by another: what came later may lean on what was lost.
      this.#last = next.then(() => this.#spacing);
      // Told by `next`; nobody may add another item, and then nobody would look at this one.
      this.#last.catch(() => undefined);
    }
    return this.#next;
  }

  /** Resolves when nothing waits any more, also after a failed write, which `add` has reported. */
  async idle(): Promise<void> {
    await this.#last.catch(() => undefined);
  }

  #writeWaiting(): Promise<void> {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#next = null;
    this.#spacing = new Promise((resolve) => setTimeout(resolve, spacingMs));
    return this.#write(batch);
  }
}
