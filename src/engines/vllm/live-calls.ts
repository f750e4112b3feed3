// The calls of an engine that are under way, by request id: for servers that end a request only when its connection closes.

/** One call. Its signal aborts when the caller gives up or when we end it ourselves. */
export class LiveCall {
  readonly #controller = new AbortController();
  #cancelTimer: (() => void) | null = null;
  #isEnded = false;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** True when `end` ended it, and not its caller. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Closes the connection on behalf of the caller. */
  cancel(): void {
    this.#controller.abort();
  }

  /** Closes the connection because somebody aborted the request. */
  end(): void {
    this.#isEnded = true;
    this.#controller.abort();
  }

  /** Ends the call unless it settles first. `after` starts a timer and gives what stops it. */
  endAfter(after: (action: () => void) => () => void): void {
    this.#cancelTimer ??= after(() => this.end());
  }

  /** To be called when the call is over, in every case. */
  settle(): void {
    this.#cancelTimer?.();
  }
}

export class LiveCalls {
  readonly #calls = new Map<string, Set<LiveCall>>();

  open(requestId: string): LiveCall {
    const call = new LiveCall();
    const known = this.#calls.get(requestId);
    if (known === undefined) this.#calls.set(requestId, new Set([call]));
    else known.add(call);
    return call;
  }

  /** Those under way with this id. */
  of(requestId: string): readonly LiveCall[] {
    return [...(this.#calls.get(requestId) ?? [])];
  }

  close(requestId: string, call: LiveCall): void {
    call.settle();
    const known = this.#calls.get(requestId);
    known?.delete(call);
    if (known?.size === 0) this.#calls.delete(requestId);
  }
}
