// The requests a front is working on: who waits, who runs, who is to stop. Holds new ones back while generation is paused
// or weights are being loaded. Knows nothing of HTTP.

export class LiveRequest {
  readonly id: string;
  readonly #controller = new AbortController();
  isRunning = false;

  constructor(id: string) {
    this.id = id;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isAborted(): boolean {
    return this.#controller.signal.aborted;
  }

  abort(): void {
    this.#controller.abort();
  }
}

export class RequestTable {
  readonly #live = new Map<string, LiveRequest>();
  readonly #holds = new Set<{ readonly freezes: boolean }>();
  #onRelease: (() => void)[] = [];
  #onClose: (() => void)[] = [];

  get running(): number {
    return [...this.#live.values()].filter((request) => request.isRunning).length;
  }

  get waiting(): number {
    return this.#live.size - this.running;
  }

  /** Whether new requests wait. */
  get isHolding(): boolean {
    return this.#holds.size > 0;
  }

  isLive(id: string): boolean {
    return this.#live.has(id);
  }

  /** The id must not be live. */
  open(id: string): LiveRequest {
    const request = new LiveRequest(id);
    this.#live.set(id, request);
    return request;
  }

  close(request: LiveRequest): void {
    this.#live.delete(request.id);
    for (const wake of this.#onClose.splice(0)) wake();
  }

  /** Aborts by prefix, but only when the id itself is live, as the reference does. */
  abort(id: string): void {
    if (!this.#live.has(id)) return;
    for (const request of this.#live.values()) if (request.id.startsWith(id)) request.abort();
  }

  abortAll(): void {
    for (const request of this.#live.values()) request.abort();
  }

  /** Holds new requests, and frozen ones also before they answer, until the returned function is called. */
  hold(options: { readonly freezes: boolean }): () => void {
    const held = { ...options };
    this.#holds.add(held);
    return () => {
      if (this.#holds.delete(held)) for (const wake of this.#onRelease.splice(0)) wake();
    };
  }

  /** Resolves when new requests may begin, or when this one is aborted. */
  admit(request: LiveRequest): Promise<void> {
    return this.#wait(request, () => this.isHolding);
  }

  /** Resolves when running requests may answer, or when this one is aborted. */
  thaw(request: LiveRequest): Promise<void> {
    return this.#wait(request, () => [...this.#holds].some((held) => held.freezes));
  }

  /** Resolves when no request runs. Those that wait may wait on. */
  async drained(): Promise<void> {
    while (this.running > 0) {
      await new Promise<void>((resolve) => {
        this.#onClose.push(resolve);
      });
    }
  }

  async #wait(request: LiveRequest, isHeld: () => boolean): Promise<void> {
    while (isHeld() && !request.isAborted) {
      await new Promise<void>((resolve) => {
        this.#onRelease.push(resolve);
        request.signal.addEventListener("abort", () => resolve(), { once: true });
      });
    }
  }
}
