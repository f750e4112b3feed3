// What the HTTP library is given as a signal: the three members of `AbortSignal` that it uses. A real one costs as much as
// parsing a small answer, and every call would make one.

/** Told to stop at most once. */
export class StopSignal {
  aborted = false;
  reason: Error | undefined = undefined;
  readonly #listeners = new Set<() => void>();

  addEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.add(listener);
  }

  removeEventListener(_type: "abort", listener: () => void): void {
    this.#listeners.delete(listener);
  }

  stop(reason: Error): void {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
  }
}
