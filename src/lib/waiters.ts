// Callers that wait for the next change of something, and are woken together.

export class Waiters {
  readonly #waiting = new Set<() => void>();

  /** Resolves at the next {@link wake}; rejects with the signal's reason when it aborts first. */
  wait(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason as Error);
      const onAbort = (): void => {
        this.#waiting.delete(proceed);
        reject(signal?.reason as Error);
      };
      const proceed = (): void => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      };
      this.#waiting.add(proceed);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** In the order in which they came. */
  wake(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const proceed of waiting) proceed();
  }
}
