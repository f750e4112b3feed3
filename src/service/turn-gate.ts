// Holds the turns of all episodes while a trainer changes weights: an engine behind a gate is asked only while the gate is
// open. Episodes wait where they are; environments and users notice nothing.

import type { Engine } from "../core/index.ts";

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

/** The engine, asked only while the gate is open. Closing it closes the engine. */
export function gatedEngine(engine: Engine, gate: TurnGate): Engine {
  return {
    name: engine.name,
    async sample(request, options) {
      if (!gate.isOpen) await gate.pass(options?.signal);
      return engine.sample(request, options);
    },
    close: () => engine.close(),
  };
}
